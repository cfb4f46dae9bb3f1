// Package storage keeps sessions: the log of what each has accepted, the snapshots of its state,
// and who may write them. It knows nothing of what they mean. Package folder keeps them in a data
// folder, package postgres in a database, and Memory for as long as the process runs.
package storage

import (
	"context"
	"io"
)

// Store is what a server of sessions needs from whatever holds them. Package storetest says what an
// implementation must do. All methods may be called at the same time. A context ends a wait, but
// not a write that has begun: an error of the context means that nothing was written.
//
// Every write names the epoch of the caller's claim on the session. Under any other epoch than the
// session's own the write is refused (ErrFenced), so that only the last to claim can write.
//
// A store that is reached over a network has two more answers, to every method: ErrUnavailable, and
// to those that write ErrUnknown.
type Store interface {
	// Durable reports whether what is written outlives this process. Nothing is ever recovered from
	// a store that does not: the states of its sessions have to stay in memory, and the text that
	// it holds takes memory of this process.
	Durable() bool

	// Create makes a session whose log is empty and starts at an offset, 0 unless what came before
	// it is known only by a snapshot. The caller has the first claim on it. ErrExists if there is
	// one of that name; a store may say so of the name of a deleted session, too, as long as forks
	// share what that session has written, or something is left of it that is still to be erased.
	Create(ctx context.Context, id string, head []byte, start int64) (epoch uint64, err error)
	// Fork makes a session, as Create does, whose log is that of another from one offset to a later
	// one or the same, at both of which a record of the other begins or its log ends; and whose
	// snapshots are those that the other has from the one offset to the other. The two share what
	// they have in common, and neither notices what becomes of the other. ErrRange if the log does
	// not reach so far; ErrInvalid if an offset lies within a record.
	Fork(ctx context.Context, from, id string, head []byte, cut Cut) (epoch uint64, err error)
	// Claim makes the caller the one who may write, and tells what there is to write to.
	Claim(ctx context.Context, id string) (Session, error)
	// Get tells what Claim does, and claims nothing. A session of which damage has left only a part
	// is told with its Err; Claim refuses it.
	Get(ctx context.Context, id string) (Session, error)
	// List gives up to limit sessions in the order of their ids (of their bytes), beginning after
	// one ("": at the first).
	List(ctx context.Context, after string, limit int) ([]Session, error)
	// SetHead replaces the head.
	SetHead(ctx context.Context, id string, epoch uint64, head []byte) error
	// Delete removes the session with everything that was ever kept for it, but what forks share of
	// it: that goes with the last of them. Epoch 0 is anyone's, so that a damaged session can be
	// deleted as well. If the session is gone after an error,
	// something was left of it that nobody can read any more: it goes with the next Delete or Open.
	Delete(ctx context.Context, id string, epoch uint64) error

	// Append adds records, at least one, to a log that ends at an offset, and returns when they are
	// durable: all of them or, with an error but ErrUnknown, none. If the log ends elsewhere, the
	// error is a SequenceError.
	Append(ctx context.Context, id string, epoch uint64, at int64, records ...Record) error
	// Read visits the records from an offset to the end that the log has when Read begins: first
	// the record that holds the offset, then the ones after it. A record's text is valid until
	// visit returns. visit may call the store. Where a record is damaged or missing, those before
	// it are visited, and the error is a CorruptError.
	Read(ctx context.Context, id string, from int64, visit func(at int64, r Record) error) error
	// Trim drops the records that end at or before an offset, which is that of the newest snapshot
	// at most.
	Trim(ctx context.Context, id string, epoch uint64, before int64) error

	// WriteSnapshot keeps what write writes as the state at an offset of the log, until the
	// snapshot is dropped. ErrExists if there is one of that offset, or a fork still shares the one
	// that was there; ErrRange if the offset is not within the log; ErrInvalid if the session has
	// SnapshotsMax already.
	WriteSnapshot(ctx context.Context, id string, epoch uint64, at int64,
		write func(io.Writer) error) error
	// Snapshots lists them, the oldest first.
	Snapshots(ctx context.Context, id string) ([]Snapshot, error)
	// ReadSnapshot hands read what was written, after it has made sure that the bytes are just
	// those; if not, the error is a CorruptError.
	ReadSnapshot(ctx context.Context, id string, at int64, read func(io.Reader) error) error
	// DropSnapshot removes one, because newer ones do for it, or because it is damaged.
	DropSnapshot(ctx context.Context, id string, epoch uint64, at int64) error

	// Close waits for writes that were accepted. Every later call returns ErrClosed.
	Close() error
}

// pageSessions is how many sessions Each reads from a store at once.
const pageSessions = 1000

// Each visits all sessions of a store in the order of their ids.
func Each(ctx context.Context, s Store, visit func(Session) error) error {
	for after := ""; ; {
		page, err := s.List(ctx, after, pageSessions)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, found := range page {
			if err := visit(found); err != nil {
				return err
			}
		}
		after = page[len(page)-1].ID
	}
}

// CopySnapshot returns a function, for WriteSnapshot, that writes what a snapshot of a store has.
func CopySnapshot(ctx context.Context, from Store, id string, at int64) func(io.Writer) error {
	return func(w io.Writer) error {
		return from.ReadSnapshot(ctx, id, at, func(r io.Reader) error {
			_, err := io.Copy(w, r)
			return err
		})
	}
}

// Session is what is known of one without reading its log.
type Session struct {
	ID    string
	Epoch uint64
	Head  []byte
	Start int64   // offset of the first record
	End   int64   // where the next one goes
	Last  *Record // the last one, without its text; nil if there is none
	// LastAt is the offset of the last record; 0 if there is none.
	LastAt int64
	// Taken says of a session that was claimed that a server whose lease was over had it, see
	// Shared.
	Taken bool
	// Err is what is wrong with this one. With it, the rest tells what damage has left: nothing but
	// ID, if not even the session's entry reads.
	Err error
}

// Record is a piece of text that was accepted as one, and the session's running totals after it. So
// the last record tells the totals without the others, and a replay is compared with every record.
type Record struct {
	UnixMS int64 // when
	// Bits is the sum of -log2 p of all of the session's text, up to the end of this record's.
	Bits        float64
	Baseline    float64 // the same of the model without adaptation, if HasBaseline
	HasBaseline bool
	// ByLine says that the session learns from the text by lines. Skipped are those that it does
	// not learn, by the newlines of the text, counted from 0, in ascending order; none without
	// ByLine.
	ByLine  bool
	Skipped []uint16
	// Continued are the bytes of the session's text, up to the end of this record's, that continue
	// a character of UTF-8: all other bytes begin one. It is 0 in a session of words.
	Continued int64
	// Words counts the tokens of a session of words; nil in one of bytes, where offsets do.
	Words *Words
	Text  []byte
}

// Words is the account of a session of words: of the tokens that were complete up to the end of a
// record's text, and of those among them that stand for words which the model does not know.
type Words struct {
	Bytes, Chars, Tokens                int64
	Unknown, UnknownBytes, UnknownChars int64
	UnknownBits, UnknownBaseline        float64 // parts of Record.Bits and Record.Baseline
}

// Snapshot is a session's state at an offset of its log, as the store keeps it.
type Snapshot struct {
	Offset int64
	Bytes  int64    // as kept: compressed
	SHA256 [32]byte // of those
}

// Cut is what a fork takes of another session: offsets of the log.
type Cut struct{ Start, End int64 }

// Limits.
const (
	MaxIDBytes   = 64
	MaxHeadBytes = 64 << 10
	MaxTextBytes = 1 << 20 // of one record
	SnapshotsMax = 1 << 11 // of one session
	SkippedMax   = 1 << 16 // lines of a record that are not learnt
	SkippedBytes = 2       // that each of these takes
	WordsBytes   = 8 * 8   // that Record.Words takes
)
