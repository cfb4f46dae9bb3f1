-- The database's own id, which the marker in its object store repeats: a store without that marker is
-- another one, or not mounted. marked says that the marker was written once; a marker that is missing
-- since then is never written anew without being asked for.
create table object_store (
    one boolean primary key default true check (one),
    id text not null default gen_random_uuid()::text,
    marked boolean not null default false
);
insert into object_store default values;
