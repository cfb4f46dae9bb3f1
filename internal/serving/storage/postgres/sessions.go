package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// described is the SQL that selects the row of a session, and its last record without the text.
const described = `
	select s.id, s.epoch, s.head, s.start, s."end",
		r.at, r.ms, r.bits, r.baseline, r.by_line, r.skipped, r.words, r.continued,
		octet_length(r.text)
	from sessions s left join lateral
		(select * from records where session = s.id order by at desc limit 1) r on true `

func scanSession(row pgx.CollectableRow) (found storage.Session, err error) {
	var c columns
	var at, ms *int64
	var bits *float64
	var byLine *bool
	var size *int64
	err = row.Scan(&found.ID, &found.Epoch, &found.Head, &found.Start, &found.End,
		&at, &ms, &bits, &c.baseline, &byLine, &c.skipped, &c.words, &c.continued, &size)
	if err == nil && at == nil && found.Start != found.End {
		found.Err = corrupt("records", found.ID, found.Start, errors.New("all records are missing"))
	}
	if err != nil || at == nil {
		return found, err
	}
	c.ms, c.bits, c.byLine = *ms, *bits, *byLine
	last, err := c.record()
	if err == nil && *at+*size != found.End {
		err = fmt.Errorf("the last record ends at offset %d, expected %d, the end of the log",
			*at+*size, found.End)
	}
	if err != nil {
		found.Err = corrupt("records", found.ID, *at, err)
		return found, nil
	}
	found.Last, found.LastAt = &last, *at
	return found, nil
}

func corrupt(table, id string, at int64, err error) error {
	return &storage.CorruptError{
		File: "table " + table, Byte: -1, Session: id, Offset: at, What: err.Error(),
	}
}

// Get implements storage.Store.
func (s *Store) Get(ctx context.Context, id string) (found storage.Session, err error) {
	err = s.read(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
		found, err = describe(ctx, q, id)
		return err
	})
	return found, err
}

// asker is a connection or a transaction. Callers may ignore the error of Query, because the
// function that collects the rows returns the same error.
type asker interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func describe(ctx context.Context, q asker, id string) (found storage.Session, err error) {
	if storage.CheckID(id) != nil {
		return found, storage.NotFound(id)
	}
	rows, _ := q.Query(ctx, described+`where s.id = $1`, id)
	found, err = pgx.CollectExactlyOneRow(rows, scanSession)
	if errors.Is(err, pgx.ErrNoRows) {
		return found, storage.NotFound(id)
	}
	return found, err
}

// List implements storage.Store.
func (s *Store) List(ctx context.Context, after string, limit int) (found []storage.Session,
	err error) {
	if limit < 1 {
		return nil, storage.Invalid("limit %d, expected 1 or more", limit)
	}
	err = s.read(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
		rows, _ := q.Query(ctx, described+`where s.id > $1 order by s.id limit $2`, place(after),
			limit)
		found, err = pgx.CollectRows(rows, scanSession)
		return err
	})
	return found, err
}

// Create implements storage.Store.
func (s *Store) Create(ctx context.Context, id string, head []byte, start int64) (epoch uint64,
	err error) {
	return s.create(ctx, id, head, start, 0)
}

// create makes a session. Parameter `most` limits the number of the owner's sessions; 0 means no
// limit. If the owner has reached the limit, the error is ErrQuota.
func (s *Store) create(
	ctx context.Context, id string, head []byte, start int64, most int,
) (epoch uint64, err error) {
	if err := storage.CheckCreate(id, head, start); err != nil {
		return 0, err
	}
	if most == 0 {
		err = s.once(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
			epoch, err = s.insert(ctx, q, id, head, start, start)
			return err
		})
		return epoch, err
	}
	err = s.transact(ctx, statementTime, func(ctx context.Context, tx pgx.Tx) error {
		if err := admitOne(ctx, tx, s.termsOf(head).Owner, most); err != nil {
			return err
		}
		epoch, err = s.insert(ctx, tx, id, head, start, start)
		return err
	})
	return epoch, err
}

// insert adds the row of a new session, which belongs to this server, and returns the session's
// epoch.
func (s *Store) insert(
	ctx context.Context, q queryer, id string, head []byte, start, end int64,
) (epoch uint64, err error) {
	t := s.termsOf(head)
	err = q.QueryRow(ctx, `
		insert into sessions (id, epoch, head, start, "end",
			node, owner, name, complete, ttl, model, numerics)
		values ($1, nextval('epochs'), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
		on conflict (id) do nothing returning epoch`,
		id, append([]byte{}, head...), start, end,
		s.self(), t.Owner, t.Name, t.Complete, t.TTL.Microseconds(), t.Model,
		t.Numerics).Scan(&epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("postgres: session %s: %w", id, storage.ErrExists)
	}
	return epoch, err
}

// Claim implements storage.Store. The claiming statement may wait for an append, and then does not
// see the record of that append. So a separate statement reads the description.
func (s *Store) Claim(ctx context.Context, id string) (found storage.Session, err error) {
	err = s.transact(ctx, statementTime, func(ctx context.Context, tx pgx.Tx) error {
		if storage.CheckID(id) != nil {
			return storage.NotFound(id)
		}
		before, err := s.mayClaim(ctx, tx, id)
		if err != nil {
			return err
		}
		done, err := tx.Exec(ctx, `
			update sessions set epoch = nextval('epochs'), node = $2, used = clock_timestamp()
			where id = $1 and ($2::text is null
				or exists (select from nodes n where n.id = $2 and `+lives+`))`,
			id, s.self())
		if err != nil {
			return err
		}
		if done.RowsAffected() == 0 {
			return unavailable(errors.New("the lease of this server has lapsed"))
		}
		if found, err = describe(ctx, tx, id); err != nil {
			return err
		}
		found.Taken = before != "" && before != s.node
		return found.Err
	})
	return found, err
}

// extent has the epoch of a session, and the offsets at which its log starts and ends.
type extent struct {
	epoch      uint64
	start, end int64
}

// lock locks the row of a session until the transaction ends. Parameter how is the strength of the
// lock: "update" for a deletion, "no key update" for a write, or "key share", which prevents
// deletion but not writes.
func lock(ctx context.Context, tx pgx.Tx, id, how string) (e extent, err error) {
	if storage.CheckID(id) != nil {
		return e, storage.NotFound(id)
	}
	err = tx.QueryRow(ctx, `select epoch, start, "end" from sessions where id = $1 for `+how, id).
		Scan(&e.epoch, &e.start, &e.end)
	if errors.Is(err, pgx.ErrNoRows) {
		return e, storage.NotFound(id)
	}
	return e, err
}

// owned locks the row of a session, and calls the function `do` within the transaction. It returns
// a FencedError if epoch is not that of the session's last claim.
func (s *Store) owned(
	ctx context.Context, id string, epoch uint64,
	do func(ctx context.Context, tx pgx.Tx, e extent) error,
) error {
	return s.transact(ctx, statementTime, func(ctx context.Context, tx pgx.Tx) error {
		e, err := lock(ctx, tx, id, "no key update")
		if err != nil {
			return err
		}
		if e.epoch != epoch {
			return &storage.FencedError{Session: id, Have: e.epoch, Want: epoch}
		}
		return do(ctx, tx, e)
	})
}

// SetHead implements storage.Store.
func (s *Store) SetHead(ctx context.Context, id string, epoch uint64, head []byte) error {
	if err := storage.CheckHead(head); err != nil {
		return err
	}
	return s.owned(ctx, id, epoch, func(ctx context.Context, tx pgx.Tx, _ extent) error {
		t := s.termsOf(head)
		_, err := tx.Exec(ctx, `
			update sessions set head = $2, name = $3, complete = $4, ttl = $5, numerics = $6
			where id = $1`,
			id, append([]byte{}, head...), t.Name, t.Complete, t.TTL.Microseconds(), t.Numerics)
		return err
	})
}

// Delete implements storage.Store. If the removal of objects fails, a sweep removes them later.
func (s *Store) Delete(ctx context.Context, id string, epoch uint64) error {
	return s.erase(ctx, id, func(_ context.Context, _ pgx.Tx, e extent) error {
		if epoch != 0 && e.epoch != epoch {
			return &storage.FencedError{Session: id, Have: e.epoch, Want: epoch}
		}
		return nil
	})
}

// erase deletes a session, and the objects that no other session shares. It first locks the
// session's row and calls the function `may`; an error of may prevents the deletion. erase also
// returns an error if the object store lacks the marker of the database.
func (s *Store) erase(
	ctx context.Context, id string, may func(ctx context.Context, tx pgx.Tx, e extent) error,
) error {
	if err := s.present(ctx); err != nil {
		return err
	}
	var left []string
	err := s.transact(ctx, copyTime, func(ctx context.Context, tx pgx.Tx) error {
		soon, cancel := context.WithTimeout(ctx, statementTime)
		defer cancel()
		e, err := lock(soon, tx, id, "update")
		if err == nil {
			err = may(soon, tx, e)
		}
		if err != nil {
			return err
		}
		if left, err = release(soon, tx, id, nil); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `delete from sessions where id = $1`, id)
		return err
	})
	if errors.Is(err, storage.ErrUnknown) {
		if _, gone := s.Get(context.WithoutCancel(ctx), id); errors.Is(gone, storage.ErrNotFound) {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	_, err = s.remove(context.WithoutCancel(ctx), left)
	return err
}

// Fork implements storage.Store. The database copies the records. The objects of the snapshots are
// not copied: both sessions refer to them.
func (s *Store) Fork(
	ctx context.Context, from, id string, head []byte, c storage.Cut,
) (epoch uint64, err error) {
	return s.fork(ctx, from, id, head, c, 0)
}

// fork makes a fork of a session. Parameter `most` limits the number of the owner's sessions; 0
// means no limit. If the owner has reached the limit, the error is ErrQuota.
func (s *Store) fork(
	ctx context.Context, from, id string, head []byte, c storage.Cut, most int,
) (epoch uint64, err error) {
	if err := storage.CheckFork(id, head, c); err != nil {
		return 0, err
	}
	err = s.transact(ctx, copyTime, func(ctx context.Context, tx pgx.Tx) error {
		e, err := lock(ctx, tx, from, "key share")
		if err != nil {
			return err
		}
		if err := admitOne(ctx, tx, s.termsOf(head).Owner, most); err != nil {
			return err
		}
		if epoch, err = s.insert(ctx, tx, id, head, c.Start, c.End); err != nil {
			return err
		}
		if err := e.checkCut(ctx, tx, from, c); err != nil {
			return err
		}
		return copyTo(ctx, tx, from, id, c)
	})
	return epoch, err
}

// checkCut returns an error if the start or the end of the cut is outside of the log, or within a
// record.
func (e extent) checkCut(ctx context.Context, tx pgx.Tx, id string, c storage.Cut) error {
	for _, at := range []int64{c.Start, c.End} {
		if at < e.start || at > e.end {
			return &storage.RangeError{Session: id, Offset: at, Start: e.start, End: e.end}
		}
		if at == e.end {
			continue
		}
		var begins bool
		err := tx.QueryRow(ctx,
			`select exists (select from records where session = $1 and at = $2)`,
			id, at).Scan(&begins)
		if err != nil {
			return err
		}
		if !begins {
			return storage.WithinRecord(id, at)
		}
	}
	return nil
}

// copyTo copies the part c of a source session to another session. The owner of the source may trim
// its log or drop its snapshots meanwhile. So copyTo returns an error if records are missing, and
// copies only the snapshots that still exist.
func copyTo(ctx context.Context, tx pgx.Tx, from, id string, c storage.Cut) error {
	_, err := tx.Exec(ctx, `
		insert into records (
			session, at, ms, bits, baseline, by_line, skipped, words, continued, text, crc)
		select $2, at, ms, bits, baseline, by_line, skipped, words, continued, text, crc
		from records
		where session = $1 and at >= $3 and at < $4`, from, id, c.Start, c.End)
	if err != nil {
		return err
	}
	var copied int64
	err = tx.QueryRow(ctx,
		`select coalesce(sum(octet_length(text)), 0) from records where session = $1`, id).
		Scan(&copied)
	if err != nil {
		return err
	}
	if copied != c.End-c.Start {
		return &storage.RangeError{Session: from, Offset: c.Start, Start: c.End - copied,
			End: c.End}
	}
	_, err = tx.Exec(ctx, `
		with kept as (
			select at, bytes, sha256, object from snapshots
			where session = $1 and at between $3 and $4
		), held as (
			select object from objects where object in (select object from kept)
			order by object for update
		), shared as (
			update objects o set refs = refs + 1 from held
			where o.object = held.object and o.refs > 0 returning o.object
		)
		insert into snapshots (session, at, bytes, sha256, object)
		select $2, at, bytes, sha256, object from kept join shared using (object)`,
		from, id, c.Start, c.End)
	return err
}
