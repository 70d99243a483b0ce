//! Runs the differential fuzzer: `cargo run -p motif-spec --example differential -- --against URI`.
//!
//!   --against URI   the server that is right, a mongod
//!   --uri URI       the server that is tested; the engine in this process if left out
//!   --seconds N     how long (60)
//!   --seed N        where to start (the clock); every round has a seed of its own, which is printed
//!   --rounds N      how many rounds at most
//!   --keep-going N  how many differences to tell before giving up (5)
//!   --codes         count different error codes too

#![expect(clippy::print_stdout, reason = "a tool that tells what it found")]

use spec::connection::Deployment;
use spec::differential::compare::{Case, Difference, Side, difference, show};
use spec::differential::random::Random;
use spec::differential::shrink::shrink;
use spec::differential::{filters, pipelines, updates, values};
use spec::text;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use value::{Code, DocBuf, Error, Result};

struct Options {
    uri: Option<String>,
    against: String,
    seconds: u64,
    seed: u64,
    rounds: u64,
    keep_going: usize,
    codes: bool,
}

fn options() -> Result<Options> {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut options = Options {
        uri: None,
        against: String::new(),
        seconds: 60,
        seed: clock.map_or(0, |since| since.as_secs()),
        rounds: u64::MAX,
        keep_going: 5,
        codes: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--codes" {
            options.codes = true;
            continue;
        }
        let value = arguments.next().ok_or_else(|| Error::bad_value(format!("{name} what?")))?;
        let number = || value.parse().map_err(|_| Error::bad_value(format!("{value}: no number")));
        match name.as_str() {
            "--uri" => options.uri = Some(value.clone()),
            "--against" => options.against.clone_from(&value),
            "--seconds" => options.seconds = number()?,
            "--seed" => options.seed = number()?,
            "--rounds" => options.rounds = number()?,
            "--keep-going" => options.keep_going = usize::try_from(number()?).unwrap_or(usize::MAX),
            _ => return Err(Error::bad_value(format!("no such option: {name}"))),
        }
    }
    if options.against.is_empty() {
        return Err(Error::bad_value("--against URI names the server to compare with"));
    }
    Ok(options)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("differential: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool> {
    let options = options()?;
    let ours = match &options.uri {
        Some(uri) => Deployment::Remote(uri.clone()),
        None => Deployment::memory()?,
    };
    let database = format!("differential_{}", std::process::id());
    let mut ours = Side { connection: ours.connect()?, database: database.clone() };
    let mut theirs =
        Side { connection: Deployment::Remote(options.against.clone()).connect()?, database };
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let (mut rounds, mut commands, mut told, mut failures) = (0, 0, 0, 0);
    while Instant::now() < end && rounds < options.rounds && told < options.keep_going {
        let seed = options.seed.wrapping_add(rounds);
        rounds += 1;
        let mut random = Random::new(seed);
        let mut documents = documents(&mut random)?;
        ours.fill(&documents)?;
        theirs.fill(&documents)?;
        for number in 0..40 {
            let update = number % 8 == 7;
            let text =
                if update { update_command(&mut random) } else { pipelines::command(&mut random) };
            let command = text::doc(&text)
                .map_err(|error| Error::internal(format!("seed {seed}: {error}\n{text}")))?;
            commands += 1;
            let right = match theirs.answer(command.as_doc()) {
                // It cuts texts in the middle of a letter; we refuse that.
                Err(error) if error.code() == Code::INVALID_BSON => continue,
                right => right?,
            };
            let mine = ours.answer(command.as_doc())?;
            failures += usize::from(right.code.is_some());
            let differs = difference(command.as_doc(), &mine, &right);
            let counts = differs.is_some_and(|kind| options.codes || kind != Difference::Code);
            if let (true, Some(kind)) = (counts, differs) {
                told += 1;
                let case = Case { documents: documents.clone(), command };
                tell(seed, case, kind, &mut ours, &mut theirs)?;
            }
            if counts || (update && differs.is_some()) {
                ours.fill(&documents)?;
                theirs.fill(&documents)?;
            } else if update && right.code.is_none() {
                documents = right.documents.get(1..).unwrap_or(&[]).to_vec();
            }
            if told >= options.keep_going {
                break;
            }
        }
    }
    ours.clear()?;
    theirs.clear()?;
    println!(
        "seeds {}..{}: {commands} commands in {rounds} rounds, {failures} refused by both or one, \
         {told} differences",
        options.seed,
        options.seed.wrapping_add(rounds)
    );
    Ok(told == 0)
}

fn documents(random: &mut Random) -> Result<Vec<DocBuf>> {
    let count = 1 + random.below(12);
    (0..count).map(|id| text::doc(&format!("{{_id: {id}, {}}}", values::fields(random)))).collect()
}

fn update_command(random: &mut Random) -> String {
    let query = if random.chance(70) {
        format!("{{_id: {}}}", random.below(12))
    } else {
        format!("{{$and: [{{_id: {}}}, {}]}}", random.below(4), filters::filter(random, 1))
    };
    format!("{{update: \"c\", updates: [{{q: {query}, u: {}}}]}}", updates::update(random))
}

/// Makes a case small and prints it as a test of a spec file.
fn tell(seed: u64, case: Case, kind: Difference, ours: &mut Side, theirs: &mut Side) -> Result<()> {
    let mut answers = |case: &Case| -> Result<_> {
        ours.fill(&case.documents)?;
        theirs.fill(&case.documents)?;
        Ok((ours.answer(case.command.as_doc())?, theirs.answer(case.command.as_doc())?))
    };
    let small = shrink(case, 1500, |case| {
        answers(case).is_ok_and(|(mine, right)| {
            difference(case.command.as_doc(), &mine, &right) == Some(kind)
        })
    });
    let (mine, right) = answers(&small)?;
    println!("--- seed {seed}: {kind:?}");
    println!("data c");
    for doc in &small.documents {
        println!("  {}", text::print_doc(doc.as_doc()));
    }
    println!("run {}", text::print_doc(small.command.as_doc()));
    println!("  ours     {}", show(&mine));
    println!("  expected {}", show(&right));
    Ok(())
}
