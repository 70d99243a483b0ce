//! `fsync`: flushes all data in memory to disk, and with `lock` keeps the files as they are until
//! `fsyncUnlock`.

use super::row::Required;
use super::{Command, Context};
use ::access::Action;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "fsync",
    help: "Flushes all data in memory to disk; with lock no file changes until fsyncUnlock.",
    fields: Some(&["fsync", "lock", "async", "fsyncLockAcquisitionTimeoutMillis"]),
    admin: true,
    privilege: Required::Cluster(&[Action::Fsync]),
    audited: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let data = &context.engine.data;
    data.check_writable()?;
    if context.args.bool("lock")? {
        let count = data.take_fsync_lock()?;
        out.str("info", "now locked against writes, use db.fsyncUnlock() to unlock");
        out.i64("lockCount", i64::try_from(count).unwrap_or(i64::MAX));
        return Ok(());
    }
    data.write_memory_to_files()?;
    out.i32("numFiles", 1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options, Storage};
    use std::path::Path;
    use value::{DocBuf, Result, Val, ejson};

    fn run(engine: &Engine, db: &str, text: &str) -> Result<DocBuf> {
        let command = ejson::parse_doc(text).expect("test text");
        engine.run_command(db, command.as_doc())
    }

    fn open(folder: &Path) -> Engine {
        let storage = Storage::Disk(folder.to_path_buf());
        Engine::open(Options { storage, ..Options::default() }).expect("opens")
    }

    fn count(engine: &Engine) -> Option<i64> {
        let reply = run(engine, "t", "{count: 'c'}").expect("counts");
        reply.as_doc().get("n").and_then(Val::as_i64_exact)
    }

    /// Copies the files of a folder, with those in folders inside.
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).expect("a folder");
        for entry in std::fs::read_dir(from).expect("is there") {
            let entry = entry.expect("is there");
            let target = to.join(entry.file_name());
            match entry.file_type().expect("is known").is_dir() {
                true => copy(&entry.path(), &target),
                false => drop(std::fs::copy(entry.path(), target).expect("is copied")),
            }
        }
    }

    #[test]
    fn files_can_be_copied_while_the_lock_is_held() {
        let folder = tempfile::tempdir().expect("a folder");
        let (data, other) = (folder.path().join("data"), folder.path().join("copy"));
        let engine = open(&data);
        run(&engine, "t", "{insert: 'c', documents: [{_id: 1}, {_id: 2}]}").expect("works");
        let unlock = |engine: &Engine| run(engine, "admin", "{fsyncUnlock: 1}");
        assert_eq!(unlock(&engine).expect_err("is not locked").code().0, 20);
        for times in [1, 2] {
            let reply = run(&engine, "admin", "{fsync: 1, lock: true}").expect("locks");
            assert_eq!(reply.as_doc().get("lockCount"), Some(Val::Int64(times)));
        }
        let insert = "{insert: 'c', documents: [{_id: 3}], maxTimeMS: 30}";
        let create = "{create: 'd', maxTimeMS: 30}";
        for write in [insert, create] {
            assert_eq!(run(&engine, "t", write).expect_err("waits").code().0, 50);
        }
        assert_eq!(count(&engine), Some(2));
        let current = run(&engine, "admin", "{currentOp: 1}").expect("tells");
        assert_eq!(current.as_doc().get("fsyncLock"), Some(Val::Bool(true)));
        copy(&data, &other);
        unlock(&engine).expect("was locked twice");
        assert_eq!(run(&engine, "t", insert).expect_err("still waits").code().0, 50);
        unlock(&engine).expect("was locked");
        run(&engine, "t", insert).expect("works again");
        assert_eq!(count(&engine), Some(3));
        let copied = open(&other);
        assert_eq!(count(&copied), Some(2));
        assert!(copied.check(&mut |_, _, _| {}).expect("can be read").is_empty());
    }

    #[test]
    fn taking_the_lock_can_be_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = open(folder.path());
        let commands = ["{fsync: 1, lock: true, maxTimeMS: 30}", "{fsync: 1, maxTimeMS: 30}"];
        let commit = engine.inner().data.commit.lock();
        assert_eq!(run(&engine, "admin", commands[0]).expect_err("waits").code().0, 50);
        drop(commit);
        // Nothing is locked.
        run(&engine, "t", "{insert: 'c', documents: [{_id: 1}]}").expect("works");
        assert_eq!(run(&engine, "admin", "{fsyncUnlock: 1}").expect_err("is not").code().0, 20);
        // Others wait for the command that takes the lock.
        let commit = engine.inner().data.commit.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| run(&engine, "admin", "{fsync: 1, lock: true}").expect("locks"));
            while !engine.inner().data.fsync_lock.is_held() {
                std::thread::yield_now();
            }
            for other in commands.iter().chain(&["{fsyncUnlock: 1, maxTimeMS: 30}"]) {
                assert_eq!(run(&engine, "admin", other).expect_err("waits").code().0, 50);
            }
            drop(commit);
        });
        run(&engine, "admin", "{fsyncUnlock: 1}").expect("was locked");
        run(&engine, "t", "{insert: 'c', documents: [{_id: 2}]}").expect("works");
        assert_eq!(count(&engine), Some(2));
    }

    #[test]
    fn a_locked_engine_closes() {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = open(folder.path());
        run(&engine, "admin", "{fsync: 1, lock: true}").expect("locks");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| run(&engine, "t", "{insert: 'c', documents: [{}]}"));
            engine.close().expect("closes");
            assert!(writer.join().expect("does not panic").is_err());
        });
    }
}
