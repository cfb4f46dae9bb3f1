//go:build unix

package crash

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/e2e/program"
	"github.com/lmserve/lmserve/internal/serving/session"
)

type settingsKind struct {
	method   string
	chunk    int
	baseline bool
}

var settingsKinds = []settingsKind{
	{stream.SparseMeta, 16, false}, {stream.SparseMeta, 16, false}, {stream.SparseMeta, 7, true},
	{stream.DynamicRMS, 16, false}, {stream.Cache, 5, false}, {stream.Static, 40, true},
}

func (k settingsKind) settings(m *model.Model, seed uint64) stream.Settings {
	set, err := stream.With(m, setting.Values{
		"method": k.method, "chunk": k.chunk, "baseline": k.baseline,
	})
	if err != nil {
		panic(err) // settingsKinds has only settings that fit the model
	}
	set.Seed = seed
	return set
}

// twin is a client's record of a session. The twin's stream reads the session's text without
// interruptions.
type twin struct {
	id       string // "" until the server has returned the id
	label    string
	kind     settingsKind
	set      stream.Settings
	history  string
	text     []byte // text of the session, and text still to be sent
	acked    int
	sent     int  // bytes of text that the session may contain
	deleting bool // The deletion was requested, and may have happened.
	forked   int  // offset at which the fork began; 0 if the session is no fork

	stream *stream.Stream // The stream has read at most the first `acked` bytes of text.
}

func newTwin(m *model.Model, k settingsKind, seed uint64, history string, text []byte) *twin {
	set := k.settings(m, seed)
	return &twin{kind: k, set: set, history: history, text: text, stream: stream.New(m, set)}
}

// like returns a twin with tw's settings. Its text is the first `at` bytes of tw's text, followed
// by `more`.
func (tw *twin) like(m *model.Model, at int, more []byte) *twin {
	text := append(bytes.Clone(tw.text[:at]), more...)
	other := newTwin(m, tw.kind, tw.set.Seed, tw.history, text)
	other.label, other.acked, other.sent = tw.label, at, at
	return other
}

// randomText returns text like a log: all lines differ, and there are patterns to learn.
func randomText(r *rand.Rand, size int) []byte {
	var b bytes.Buffer
	for b.Len() < size {
		method := []string{"GET", "PUT", "HEAD"}[r.IntN(3)]
		fmt.Fprintf(&b, "%s /item/%08x -> %d\n", method, r.Uint32(), 200+r.IntN(3))
	}
	b.Truncate(size)
	return b.Bytes()
}

type totals struct {
	Bytes        int
	Bits         float64
	BaselineBits *float64 `json:"baseline_bits"`
}

// told compares the reported offset and totals with earlier reports and with the undisturbed
// stream.
func (tw *twin) told(w *stream.Worker, offset int, t totals) error {
	if offset < tw.acked || offset > tw.sent {
		return fmt.Errorf("session %s is at offset %d, expected %d, which was acknowledged, to %d",
			tw.id, offset, tw.acked, tw.sent)
	}
	tw.acked = offset
	// A new fork may begin within a piece of text that the parent session scored as a whole. Until
	// its first use, such a fork reports the totals before the piece.
	early := offset == tw.forked && offset > 0
	w.Feed(tw.stream, tw.text[tw.stream.Tally.Bytes:offset], nil)
	if early && t.Bytes <= offset && t.Bits < tw.stream.Tally.Bits {
		return nil
	}
	if offset != t.Bytes || math.Float64bits(t.Bits) != math.Float64bits(tw.stream.Tally.Bits) {
		return fmt.Errorf("session %s (%+v) at offset %d: %+v, expected %v bits",
			tw.id, tw.kind, offset, t, tw.stream.Tally.Bits)
	}
	static := tw.stream.Baseline.Bits
	same := func(have *float64) bool {
		return have != nil && math.Float64bits(*have) == math.Float64bits(static)
	}
	if tw.kind.baseline && !same(t.BaselineBits) {
		return fmt.Errorf("session %s at offset %d: %+v, expected %v bits of the baseline",
			tw.id, offset, t, static)
	}
	return nil
}

func (tw *twin) sameState(export io.Reader) error {
	b, err := io.ReadAll(export)
	if err != nil {
		return err
	}
	x, err := program.ReadExport(b)
	if err != nil {
		return err
	}
	want, err := tw.stream.Snapshot()
	if err != nil {
		return err
	}
	for key, text := range want.Metadata {
		if x.State.Metadata[key] != text {
			return fmt.Errorf("session %s (%+v): %s is %s, expected %s",
				tw.id, tw.kind, key, x.State.Metadata[key], text)
		}
	}
	for _, t := range want.Tensors {
		if got, ok := x.State.Tensor(t.Name); !ok || !bytes.Equal(got.Data, t.Data) {
			return fmt.Errorf("session %s (%+v): another %s", tw.id, tw.kind, t.Name)
		}
	}
	return nil
}

// secrets returns pieces of text that occur in deleted sessions, but in no living session.
func secrets(deleted, living []*twin) (found [][]byte) {
	const lineBytes, secretBytes = 26, 8
	for _, tw := range deleted {
		for at := 0; at+2*lineBytes < tw.acked; at += 10 * lineBytes {
			line := bytes.IndexByte(tw.text[at:], '/') + at + len("/item/")
			if line+secretBytes > tw.acked {
				break
			}
			secret := tw.text[line : line+secretBytes]
			shared := false
			for _, other := range living {
				shared = shared || bytes.Contains(other.text[:other.sent], secret)
			}
			if !shared {
				found = append(found, secret)
			}
		}
	}
	return found
}

var histories = []string{session.HistoryFull, session.HistoryFull, session.HistoryTail}
