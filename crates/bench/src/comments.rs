//! A post with fifty thousand comments: in chunks, by the pattern `outlier`, and as one document.

use super::requests::{by_id, insert, run, text, update};
use super::workload::DATABASE;
use anyhow::Result;
use client::Client;
use value::DocBuf;
use value::writer::ArrayWriter;

/// Comments of the post.
const COMMENTS: u64 = 50_000;
/// Comments of one command that loads them.
const BATCH: u64 = 5_000;

/// The post in chunks, and the one in one document.
pub(super) const CHUNKS: &str = "posts";
pub(super) const ONE: &str = "posts_hand";

/// A comment of about 200 bytes.
fn comment(out: &mut ArrayWriter<'_>, number: u64) {
    out.push_doc(|out| {
        out.i64("n", number.cast_signed()).str("author", &format!("user {}", number % 9_000));
        out.str(
            "text",
            "It came in time, it works, and the colour is the one that was shown, more or less.",
        );
        out.str("place", "Some Town").i32("likes", 0);
    });
}

fn pushed(numbers: std::ops::Range<u64>) -> DocBuf {
    DocBuf::build(|out| {
        out.doc("$push", |out| {
            out.doc("comments", |out| {
                out.array("$each", |list| numbers.for_each(|number| comment(list, number)));
            });
        });
    })
}

/// Makes the posts.
pub(super) fn load(client: &mut Client, has_patterns: bool) -> Result<()> {
    if has_patterns {
        let declare = format!(
            "{{createPatterns: '{CHUNKS}', patterns: [{{name: 'comments', kind: 'outlier', array: 'comments', \
             keep: 20, flag: 'has_overflow', count: 'comment_count'}}]}}"
        );
        run(client, DATABASE, &text(&declare))?;
    }
    let collections: &[&str] = if has_patterns { &[CHUNKS, ONE] } else { &[ONE] };
    for collection in collections {
        let post = insert(collection, |docs| {
            docs.push_doc(|out| {
                out.i64("_id", 1).str("title", "a post that everybody knows");
            });
        });
        run(client, DATABASE, &post)?;
        for from in (0..COMMENTS).step_by(BATCH as usize) {
            let change = pushed(from..from + BATCH);
            run(client, DATABASE, &update(collection, &by_id(1), &change, false))?;
        }
    }
    Ok(())
}

/// Pushes comments one by one.
pub(super) fn push(client: &mut Client, collection: &str, times: u64) -> Result<u64> {
    for number in 0..times {
        let change = pushed(COMMENTS + number..COMMENTS + number + 1);
        run(client, DATABASE, &update(collection, &by_id(1), &change, false))?;
    }
    Ok(times)
}

/// Reads the last twenty comments.
pub(super) fn latest(client: &mut Client, collection: &str, times: u64) -> Result<u64> {
    // What stays in the document are the last twenty.
    let projection = if collection == CHUNKS { "1" } else { "{$slice: -20}" };
    let find = text(&format!(
        "{{find: '{collection}', filter: {{_id: 1}}, projection: {{comments: {projection}}}, limit: 1}}"
    ));
    (0..times).try_for_each(|_| run(client, DATABASE, &find))?;
    Ok(times)
}
