package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

const (
	// pageBytes limits the text that one query reads from a log, in bytes. The last record of a
	// page may exceed the limit.
	pageBytes = 1 << 20
	// resolveTime is the longest time for which an append of unknown outcome is repeated. The
	// repetitions cannot add the records twice, because an append names the expected end of the
	// log.
	resolveTime     = 20 * time.Second
	resolveWaitMin  = 20 * time.Millisecond
	resolveWaitMost = time.Second
)

// Append implements storage.Store. One statement moves the end of the log and adds the records.
func (s *Store) Append(
	ctx context.Context, id string, epoch uint64, at int64, records ...storage.Record,
) error {
	if err := storage.CheckRecords(at, records); err != nil {
		return err
	}
	b := newBatch(at, records)
	err := s.append(ctx, id, epoch, b)
	if !errors.Is(err, storage.ErrUnknown) {
		return err
	}
	return s.resolve(context.WithoutCancel(ctx), id, epoch, b, err)
}

// resolve finds out whether an append succeeded although its connection broke. Reading the session
// is not enough, because the database may still run the statement later. So resolve repeats the
// append. If the repetition succeeds, the first append can no longer succeed. If the log already
// has the records at their offsets, the first append has succeeded.
func (s *Store) resolve(ctx context.Context, id string, epoch uint64, b *batch, lost error) error {
	deadline := time.Now().Add(resolveTime)
	for wait := resolveWaitMin; time.Now().Before(deadline); wait = min(2*wait, resolveWaitMost) {
		time.Sleep(wait)
		err := s.append(ctx, id, epoch, b)
		var wrong *storage.SequenceError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &wrong) && wrong.Have == b.end:
			made, err := s.has(ctx, id, b)
			if err != nil {
				lost = err
				continue
			}
			if made {
				return nil
			}
			return wrong
		case errors.Is(err, storage.ErrUnknown), errors.Is(err, storage.ErrUnavailable):
			lost = err
		// the session was claimed again or deleted, perhaps after the first append succeeded
		default:
			return fmt.Errorf("%w; then: %v", unknown(lost), err)
		}
	}
	return unknown(lost)
}

// has reports whether the log has all records of a batch. It compares offsets and checksums.
func (s *Store) has(ctx context.Context, id string, b *batch) (all bool, err error) {
	err = s.read(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
		return q.QueryRow(ctx, `
			select count(*) = cardinality($2::bigint[]) from records
			join unnest($2::bigint[], $3::bigint[]) as sent(at, crc) using (at, crc)
			where session = $1`, id, b.at, b.crc).Scan(&all)
	})
	return all, err
}

// append tries once to add a batch of records to the log of a session.
func (s *Store) append(ctx context.Context, id string, epoch uint64, b *batch) error {
	return s.once(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
		if storage.CheckID(id) != nil {
			return storage.NotFound(id)
		}
		done, err := q.Exec(ctx, `
			with moved as (
				update sessions set "end" = $4, used = now()
				where id = $1 and epoch = $2 and "end" = $3 returning id
			)
			insert into records (
				session, at, ms, bits, baseline, by_line, skipped, words, continued, text, crc)
			select moved.id, r.* from moved, unnest(
				$5::bigint[], $6::bigint[], $7::float8[], $8::float8[], $9::boolean[],
				$10::bytea[], $11::bytea[], $12::bigint[], $13::bytea[], $14::bigint[]) as r`,
			id, epoch, b.at[0], b.end,
			b.at, b.ms, b.bits, b.baseline, b.byLine, b.skipped, b.words, b.continued,
			b.text, b.crc)
		if err != nil || done.RowsAffected() > 0 {
			return err
		}
		return whyNot(ctx, q, id, epoch, b.at[0])
	})
}

// whyNot returns the error for an append that added nothing.
func whyNot(ctx context.Context, q *pgxpool.Conn, id string, epoch uint64, at int64) error {
	var e extent
	err := q.QueryRow(ctx, `select epoch, "end" from sessions where id = $1`, id).
		Scan(&e.epoch, &e.end)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return storage.NotFound(id)
	case err != nil: // the append was refused, but the reason is not known
		return unavailable(err)
	case e.epoch != epoch:
		return &storage.FencedError{Session: id, Have: e.epoch, Want: epoch}
	}
	return &storage.SequenceError{Session: id, Have: e.end, Want: at}
}

// Read implements storage.Store.
func (s *Store) Read(
	ctx context.Context, id string, from int64, visit func(at int64, r storage.Record) error,
) error {
	var e extent
	at := from
	err := s.read(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
		if storage.CheckID(id) != nil {
			return storage.NotFound(id)
		}
		err := q.QueryRow(ctx, `
			select start, "end",
				coalesce((select max(at) from records where session = $1 and at <= $2), start)
			from sessions where id = $1`, id, from).Scan(&e.start, &e.end, &at)
		if errors.Is(err, pgx.ErrNoRows) {
			return storage.NotFound(id)
		}
		return err
	})
	if err != nil {
		return err
	}
	if from < e.start || from > e.end {
		return &storage.RangeError{Session: id, Offset: from, Start: e.start, End: e.end}
	}
	if from == e.end {
		return nil
	}
	for at < e.end {
		page, err := s.page(ctx, id, at, e.end)
		if err != nil {
			return err
		}
		for _, p := range page {
			if err := s.whole(ctx, id, at, p); err != nil {
				return err
			}
			r, err := p.record()
			if err != nil {
				return corrupt("records", id, at, err)
			}
			if err := visit(at, r); err != nil {
				return err
			}
			at += int64(len(r.Text))
		}
		if len(page) == 0 {
			return s.missing(ctx, id, at)
		}
	}
	return nil
}

type placed struct {
	columns
	at, crc int64
}

func (s *Store) page(ctx context.Context, id string, at, end int64) (page []placed, err error) {
	err = s.read(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
		rows, _ := q.Query(ctx, `
			select at, ms, bits, baseline, by_line, skipped, words, continued, text, crc
			from records where session = $1 and at >= $2 and at < $3 order by at`,
			id, at, at+min(end-at, pageBytes))
		page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p placed, err error) {
			err = row.Scan(&p.at, &p.ms, &p.bits, &p.baseline, &p.byLine,
				&p.skipped, &p.words, &p.continued, &p.text, &p.crc)
			return p, err
		})
		return err
	})
	return page, err
}

// whole returns an error if the record at an offset is damaged or missing.
func (s *Store) whole(ctx context.Context, id string, at int64, p placed) error {
	if p.at != at {
		return s.missing(ctx, id, at)
	}
	if sum := p.checksum(at); sum != p.crc {
		return corrupt("records", id, at, fmt.Errorf("the checksum is %08x, expected "+
			"%08x", sum, p.crc))
	}
	return nil
}

// missing returns why a log has no record at an offset. Either the session was deleted or trimmed
// during the read, or the record is lost.
func (s *Store) missing(ctx context.Context, id string, at int64) error {
	found, err := s.Get(ctx, id)
	switch {
	case err != nil:
		return err
	case at < found.Start:
		return &storage.RangeError{Session: id, Offset: at, Start: found.Start, End: found.End}
	}
	return corrupt("records", id, at, errors.New("the record is missing"))
}

// Trim implements storage.Store. The effect of trimmed text remains only in the newest snapshot, so
// Trim first checks that the object of that snapshot exists.
func (s *Store) Trim(ctx context.Context, id string, epoch uint64, before int64) error {
	if err := s.newestThere(ctx, id); err != nil {
		return err
	}
	return s.owned(ctx, id, epoch, func(ctx context.Context, tx pgx.Tx, e extent) error {
		newest := e.start
		err := tx.QueryRow(ctx, `select coalesce(max(at), $2) from snapshots where session = $1`,
			id, e.start).Scan(&newest)
		if err != nil {
			return err
		}
		if before < 0 || before > newest {
			return &storage.RangeError{Session: id, Offset: before, Start: 0, End: newest}
		}
		_, err = tx.Exec(ctx, `
			with dropped as (
				delete from records where session = $1 and at < $2 and at + octet_length(text) <= $2
				returning at + octet_length(text) as ended
			)
			update sessions set start = (select max(ended) from dropped)
			where id = $1 and exists (select from dropped)`, id, before)
		return err
	})
}

// newestThere checks that the object of a session's newest snapshot is in the object store. It
// returns no error for a session without snapshots.
func (s *Store) newestThere(ctx context.Context, id string) error {
	var name string
	var bytes int64
	err := s.read(ctx, func(ctx context.Context, q *pgxpool.Conn) error {
		err := q.QueryRow(ctx, `
			select object, bytes from snapshots where session = $1 order by at desc limit 1`, id).
			Scan(&name, &bytes)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil || name == "" {
		return err
	}
	return s.objects.holds(ctx, name, bytes)
}
