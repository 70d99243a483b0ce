//! Runs the differential fuzzer: `cargo run -p motif-spec --example differential -- --against URI`.
//!
//!   --against URI   the reference server, a mongod
//!   --uri URI       the tested server [default: the engine in this process]
//!   --seconds N     duration [default: 60]
//!   --seed N        seed of the first round [default: from the clock]; the seed of each round is printed
//!   --rounds N      maximum number of rounds
//!   --keep-going N  maximum number of differences to report [default: 5]
//!   --area NAME     one area only: general, arrays, collations, merge, positions,
//!                   windows, shapes, words
//!   --codes         report different error codes too
//!   --ddl           only commands about collections, with their change events

#![expect(clippy::print_stdout, reason = "a tool that tells what it found")]

use spec::connection::Deployment;
use spec::differential::areas::{AREAS, Area};
use spec::differential::compare::{Case, Difference, Side, difference, show, written};
use spec::differential::ddl;
use spec::differential::random::Random;
use spec::differential::shrink::shrink;
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
    area: Option<&'static Area>,
    ddl: bool,
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
        area: None,
        ddl: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--codes" {
            options.codes = true;
            continue;
        }
        if name == "--ddl" {
            options.ddl = true;
            continue;
        }
        let value = arguments.next().ok_or_else(|| Error::bad_value(format!("{name} what?")))?;
        let number = || value.parse().map_err(|_| Error::bad_value(format!("{value}: no number")));
        match name.as_str() {
            "--uri" => options.uri = Some(value.clone()),
            "--against" => options.against.clone_from(&value),
            "--seconds" => options.seconds = number()?,
            "--area" => {
                let found = AREAS.iter().find(|area| area.name == value);
                options.area = Some(found.ok_or_else(|| Error::bad_value("no such area"))?);
            }
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
    let (mut rounds, mut commands, mut differences, mut failures) = (0, 0, 0, 0);
    while Instant::now() < end && rounds < options.rounds && differences < options.keep_going {
        let seed = options.seed.wrapping_add(rounds);
        rounds += 1;
        let mut random = Random::new(seed);
        if random.chance(20) || options.ddl {
            commands += 1;
            differences += usize::from(!ddl_round(seed, &mut random, &mut ours, &mut theirs)?);
            if options.ddl {
                continue;
            }
        }
        // Every second round is general; the others take turns.
        let turn = usize::try_from(seed / 2).unwrap_or(0) % (AREAS.len() - 1);
        let area = match options.area {
            Some(area) => area,
            None if seed % 2 == 0 => &AREAS[0],
            None => &AREAS[1 + turn],
        };
        let setup = (area.setup)(&mut random);
        ours.prepare(&setup)?;
        theirs.prepare(&setup)?;
        let mut documents = documents(&mut random, area)?;
        ours.fill(&documents)?;
        theirs.fill(&documents)?;
        for _ in 0..40 {
            let text = (area.command)(&mut random);
            let command = text::doc(&text)
                .map_err(|error| Error::internal(format!("seed {seed}: {error}\n{text}")))?;
            let target = written(command.as_doc());
            let update = target.is_some();
            commands += 1;
            let right = match theirs.answer(command.as_doc()) {
                // It cuts strings in the middle of a character; MotifDB refuses that.
                Err(error) if error.code() == Code::INVALID_BSON => continue,
                right => right?,
            };
            let mine = ours.answer(command.as_doc())?;
            failures += usize::from(right.code.is_some());
            let differs = difference(command.as_doc(), &mine, &right);
            let counts = differs.is_some_and(|kind| options.codes || kind != Difference::Code);
            if let (true, Some(kind)) = (counts, differs) {
                differences += 1;
                let case = Case { documents: documents.clone(), command };
                tell(seed, &setup, case, kind, &mut ours, &mut theirs)?;
            }
            if counts
                || target == Some("o")
                || (update && (differs.is_some() || right.code.is_some()))
            {
                ours.fill(&documents)?;
                theirs.fill(&documents)?;
            } else if update && right.code.is_none() {
                documents = right.documents.get(1..).unwrap_or(&[]).to_vec();
            }
            if differences >= options.keep_going {
                break;
            }
        }
    }
    ours.clear()?;
    theirs.clear()?;
    println!(
        "seeds {}..{}: {commands} commands in {rounds} rounds, {failures} refused by both or one, \
         {differences} differences",
        options.seed,
        options.seed.wrapping_add(rounds)
    );
    Ok(differences == 0)
}

/// Runs commands about collections; false if their events differ.
fn ddl_round(seed: u64, random: &mut Random, ours: &mut Side, theirs: &mut Side) -> Result<bool> {
    let (mut commands, expanded) = (ddl::commands(random), random.chance(70));
    let mut compare = |commands: &[String]| -> Result<_> {
        let right = ddl::outcome(theirs, commands, expanded)?;
        Ok((ddl::outcome(ours, commands, expanded)?, right))
    };
    let (first, first_right) = compare(&commands)?;
    if first == first_right {
        return Ok(true);
    }
    // A server that is busy may answer otherwise once: what does not come back is told, not counted.
    let comes_back = compare(&commands).is_ok_and(|(mine, right)| mine != right);
    if !comes_back {
        println!("--- seed {seed}: events differed once (expanded: {expanded})");
        tell_lines(&commands, &first, &first_right);
        return Ok(true);
    }
    // Removes commands that the difference does not need. Transactions stay complete.
    let mut at = 0;
    while at < commands.len() {
        let mut fewer = commands.clone();
        fewer.remove(at);
        match commands.get(at) {
            Some(text)
                if !text.contains("txnNumber") && compare(&fewer).is_ok_and(|(a, b)| a != b) =>
            {
                commands = fewer;
            }
            _ => at += 1,
        }
    }
    let (mine, right) = compare(&commands)?;
    println!("--- seed {seed}: events differ (expanded: {expanded})");
    tell_lines(&commands, &mine, &right);
    Ok(false)
}

/// Prints commands and the lines in which their outcomes differ.
fn tell_lines(commands: &[String], mine: &[String], right: &[String]) {
    for text in commands {
        println!("run {text}");
    }
    for at in 0..mine.len().max(right.len()) {
        let (mine, right) = (mine.get(at), right.get(at));
        if mine != right {
            println!("  ours     {}", mine.map_or("-", String::as_str));
            println!("  expected {}", right.map_or("-", String::as_str));
        }
    }
}

fn documents(random: &mut Random, area: &Area) -> Result<Vec<DocBuf>> {
    let count = 1 + random.below(12);
    (0..count).map(|id| text::doc(&format!("{{_id: {id}, {}}}", (area.fields)(random)))).collect()
}

/// Shrinks a case and prints it as a test of a spec file.
fn tell(
    seed: u64,
    setup: &[String],
    case: Case,
    kind: Difference,
    ours: &mut Side,
    theirs: &mut Side,
) -> Result<()> {
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
    setup.iter().for_each(|command| println!("run {command}"));
    println!("run {}", text::print_doc(small.command.as_doc()));
    println!("  ours     {}", show(&mine));
    println!("  expected {}", show(&right));
    Ok(())
}
