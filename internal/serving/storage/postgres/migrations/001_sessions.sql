-- Epochs are given out once, whatever becomes of the sessions that had them.
create sequence epochs as bigint;

-- "end" is the offset at which the log ends; start is that of its first record.
create table sessions (
    id text collate "C" primary key,
    epoch bigint not null,
    head bytea not null,
    start bigint not null check (start >= 0),
    "end" bigint not null check ("end" >= start)
);

-- A record at an offset of the log. words and skipped are those of sessionlog.Record, little-endian;
-- crc is the checksum (CRC-32C) of all the rest but the session, so that forks have copies of it.
create table records (
    session text collate "C" not null references sessions on delete cascade,
    at bigint not null,
    ms bigint not null,
    bits double precision not null,
    baseline double precision,
    by_line boolean not null,
    skipped bytea,
    words bytea,
    text bytea not null,
    crc bigint not null,
    primary key (session, at)
);

-- Objects of the object store that are there, or may be. refs counts the snapshots that refer to the
-- object: with 0, the object is being written or is to be removed, and after an hour a sweep sets -1,
-- after which the object cannot become a snapshot any more, and removes it.
create table objects (
    object text collate "C" primary key,
    refs integer not null,
    since timestamptz not null default now()
);
create index objects_to_remove on objects (since) where refs <= 0;

create table snapshots (
    session text collate "C" not null references sessions on delete cascade,
    at bigint not null,
    bytes bigint not null,
    sha256 bytea not null,
    object text collate "C" not null references objects,
    primary key (session, at)
);
create index snapshots_object on snapshots (object);
