-- Servers that share the database. A server has its sessions as long as until lies ahead, by the clock
-- of the database; id is of one run of a server, and name of all its runs. lease is in microseconds.
create table nodes (
    id text collate "C" primary key,
    name text collate "C" not null,
    addr text not null,
    numerics text not null,
    models text[] not null,
    draining boolean not null,
    lease bigint not null,
    until timestamptz not null
);

-- node is the id of the server that has the session, which is free without one, or when the server's
-- lease is over. The other columns repeat what the database has to know of the head: whose the session
-- is, what its owner calls it, and after how many microseconds without use it goes (0: never).
alter table sessions
    add node text collate "C",
    add owner text collate "C" not null default '',
    add name text collate "C" not null default '',
    add complete boolean not null default true,
    add ttl bigint not null default 0,
    add model text not null default '',
    add numerics text not null default '',
    add used timestamptz not null default now();

update sessions s set
    owner = h.head ->> 'owner',
    name = coalesce(h.head ->> 'name', ''),
    complete = (h.head ->> 'complete')::boolean,
    ttl = (h.head ->> 'ttl_ns')::bigint / 1000,
    model = h.head -> 'model' ->> 'hash',
    numerics = coalesce(h.head -> 'numerics' -> -1 ->> 'name', '')
from (
    -- Labels may have a NUL, which PostgreSQL's texts cannot.
    select id, regexp_replace(convert_from(head, 'UTF8'), '(?<!\\)((?:\\\\)*)\\u0000', '\1', 'g')::json as head
    from sessions
) h
where h.id = s.id;

-- Of two sessions of an owner that have the same name it is that of the first.
update sessions s set name = '' where name <> '' and exists
    (select from sessions o where o.owner = s.owner and o.name = s.name and o.id < s.id);

create unique index sessions_name on sessions (owner, name) where name <> '';
create index sessions_owner on sessions (owner, id);
create index sessions_node on sessions (node) where node is not null;
create index sessions_expiring on sessions (id) where ttl > 0 or not complete;
