# Short names for the scripts, which work without `just` too.

# Everything that is checked before a commit is taken.
test *STEPS:
    scripts/test {{STEPS}}

# One fuzz target, or all of them, for so many seconds each.
fuzz TARGET="all" SECONDS="60":
    scripts/fuzz {{TARGET}} {{SECONDS}}

# A server from this source, with the flags of `motif serve`.
serve *FLAGS:
    cargo run --release -p motif-cli -- serve {{FLAGS}}

# What it does in a second, with the flags of `motif bench`.
bench *FLAGS:
    cargo run --release -p motif-cli -- bench {{FLAGS}}

# Licences, banned crates and sources of what comes into the program.
deny:
    scripts/deny

# Known weaknesses of what comes into the program; needs the network.
advisories:
    scripts/advisories
