package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Limits on what a session remembers of its deliveries.
const (
	DeliveriesMax    = 256 // keys of deliveries that were fed whole
	cutDeliveriesMax = 16  // deliveries that were fed in part
	deliveryKeySize  = 8   // bytes that are kept of the hash of a key

	// deliveryWhole is the longest delivery without a key that a shutdown waits for, in bytes. A
	// delivery with a key can be resumed where it was cut.
	deliveryWhole = 1 << 20
)

// ErrQueueFull says that the session's queue of deliveries is full, or that this delivery has
// waited for its maximum. No text of the delivery was accepted.
var ErrQueueFull = errors.New("session: the queue of the session is full")

// Delivery is a text of whole lines. Its first line begins a line of the session. The delivery is
// fed even if its client leaves. A shutdown waits for a short delivery without a key.
type Delivery struct {
	// Key identifies a delivery that is repeated: text that was fed under the same key is not fed
	// again. If Key is "", every delivery is new.
	Key  string
	Text []byte // ends with a newline
}

// Deliver feeds a delivery as Score feeds a text. The options have neither an offset nor
// LearnFalse. The delivery waits in the session's queue for at most o.Wait; then the error is
// ErrQueueFull. If the delivery was fed before, Summary.Duplicate is true and nothing is reported.
func (mg *Manager) Deliver(
	ctx context.Context, who Caller, id string, d Delivery, o ScoreOptions, emit func(Chunk) error,
) (Summary, error) {
	begun := time.Now()
	s, done, err := mg.index.use(who, id)
	if err != nil {
		return Summary{}, err
	}
	defer done()
	if err := checkLearn(s, o); err != nil {
		return Summary{}, err
	}
	if err := s.feedable(); err != nil {
		return Summary{}, err
	}
	attended := o.attend()
	end, err := mg.engine.beginFeeding(ctx, s, o.Wait)
	attended()
	if errors.Is(err, ErrBusy) {
		return Summary{}, ErrQueueFull
	}
	if err != nil {
		return Summary{}, err
	}
	defer end()
	f := feeder{
		reports: mg.reporting(s, o, emit), maxWait: max(mg.engine.scoreRecovery, o.Wait),
	}
	feed := f.piece
	if d.Key == "" && len(d.Text) <= deliveryWhole {
		if err := mg.life.Enter(); err != nil {
			return Summary{}, err
		}
		defer mg.life.Leave()
		feed = f.told
	}
	f.sum.Duplicate, err = f.deliver(context.WithoutCancel(ctx), d, feed)
	mg.index.touch(s)
	f.finish(begun)
	return f.sum, err
}

// deliver feeds the part of a delivery that the session lacks, and reports whether the session had
// all of it.
func (f *feeder) deliver(
	ctx context.Context, d Delivery, feed feeding,
) (duplicate bool, err error) {
	s, key := f.s, d.hash()
	fed, last := s.delivered(key, d.Text)
	switch {
	case fed == len(d.Text):
		return true, nil
	case last: // the session ends with a part of this delivery
		return false, f.lines(ctx, d.Text[fed:], feed)
	}
	newline, err := s.missingNewline(ctx)
	if err != nil {
		return false, err
	}
	// The session may end with a part of another delivery. If that part lacks only the newline of
	// its last line, the line is complete once the newline is fed.
	if err := s.cutDelivery(ctx, len(newline)); err != nil {
		return false, err
	}
	if err := f.lines(ctx, newline, feed); err != nil {
		return false, err
	}
	if key != nil {
		err := s.changeHead(ctx, func(h *head) {
			h.Deliveries = h.Deliveries.begin(lastDelivery{
				Key: key, From: s.seen().offset, Before: fed, Bytes: len(d.Text) - fed,
			}, s.seen().offset)
		})
		if err != nil {
			return false, err
		}
	}
	return false, f.lines(ctx, d.Text[fed:], feed)
}

// feeding feeds the part of a text that fits the chunk.
type feeding func(ctx context.Context, text []byte) (n int, err error)

// lines feeds text that ends with a newline.
func (f *feeder) lines(ctx context.Context, text []byte, feed feeding) error {
	for len(text) > 0 {
		n, err := feed(ctx, text)
		if err != nil {
			return err
		}
		text = text[n:]
	}
	f.s.wholeTo = f.s.seen().offset
	return nil
}

// missingNewline returns the newline that the session's last line lacks; empty if it lacks none, or
// if the session does not keep its text.
func (s *session) missingNewline(ctx context.Context) ([]byte, error) {
	at := s.seen().offset
	if at == 0 || at == s.wholeTo {
		return nil, nil
	}
	last := byte('\n')
	err := s.host.store.Read(ctx, s.ID, at-1, func(_ int64, r storage.Record) error {
		if n := len(r.Text); n > 0 {
			last = r.Text[n-1]
		}
		return nil
	})
	switch {
	case errors.Is(err, storage.ErrRange): // the session does not keep its text
		return nil, nil
	case err != nil:
		return nil, storeError("reading the log of session "+s.ID, err)
	case last != '\n':
		return []byte{'\n'}, nil
	}
	return nil, nil
}

// deliveries is the part of a session's head about deliveries with keys. It is immutable.
type deliveries struct {
	Whole []byte         `json:"whole,omitempty"` // keys of whole deliveries, the oldest first
	Cut   []cutDelivery  `json:"cut,omitempty"`   // partial deliveries, the oldest first
	Last  []lastDelivery `json:"last,omitempty"`  // the last delivery, or none
}

// cutDelivery is a delivery that was interrupted by other text.
type cutDelivery struct {
	Key []byte `json:"key"`
	Fed int    `json:"fed"` // bytes that the session has
}

// lastDelivery is a delivery that may be under way. The session's offset tells how much of it was
// fed.
type lastDelivery struct {
	Key    []byte `json:"key"`
	From   int64  `json:"from"`   // the offset at which its text begins
	Before int    `json:"before"` // bytes that the session got earlier, before other text
	Bytes  int    `json:"bytes"`  // bytes of the text that begins at From
}

// fed returns how many bytes of the delivery a session at an offset has.
func (d *lastDelivery) fed(offset int64) int {
	return d.Before + int(min(max(0, offset-d.From), int64(d.Bytes)))
}

// whole reports whether a session at an offset has all of the delivery.
func (d *lastDelivery) whole(offset int64) bool { return d.fed(offset) == d.Before+d.Bytes }

// hash identifies a delivery by its key and text; nil without a key. Another text under the same
// key is another delivery.
func (d *Delivery) hash() []byte {
	if d.Key == "" {
		return nil
	}
	key, text := sha256.Sum256([]byte(d.Key)), sha256.Sum256(d.Text)
	sum := sha256.Sum256(slices.Concat(key[:], text[:]))
	return sum[:deliveryKeySize]
}

// delivered returns how many bytes of a delivery the session has, and whether the session ends with
// them. If other text interrupted the delivery, only whole lines count: the cut line is fed again.
func (s *session) delivered(key, text []byte) (fed int, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.Deliveries
	if d == nil || key == nil {
		return 0, false
	}
	for _, l := range d.Last {
		if bytes.Equal(l.Key, key) && l.Before+l.Bytes == len(text) {
			return l.fed(s.mu.seen.offset), true
		}
	}
	for one := range slices.Chunk(d.Whole, deliveryKeySize) {
		if bytes.Equal(one, key) {
			return len(text), false
		}
	}
	for _, c := range d.Cut {
		if bytes.Equal(c.Key, key) && c.Fed <= len(text) {
			return bytes.LastIndexByte(text[:c.Fed], '\n') + 1, false
		}
	}
	return 0, false
}

// end returns the deliveries to remember when the last delivery gets no more text. The session is
// at offset.
func (d *deliveries) end(offset int64) *deliveries {
	next := &deliveries{Whole: d.Whole, Cut: slices.Clone(d.Cut)}
	for _, l := range d.Last {
		if l.whole(offset) {
			next.Whole = slices.Concat(d.Whole, l.Key)
		} else {
			next.Cut = append(next.Cut, cutDelivery{l.Key, l.fed(offset)})
		}
	}
	next.Whole = next.Whole[max(0, len(next.Whole)-DeliveriesMax*deliveryKeySize):]
	next.Cut = next.Cut[max(0, len(next.Cut)-cutDeliveriesMax):]
	return next
}

// begin returns the deliveries to remember when another delivery begins.
func (d *deliveries) begin(l lastDelivery, offset int64) *deliveries {
	next := new(deliveries)
	if d != nil {
		next = d.end(offset)
	}
	next.Cut = slices.DeleteFunc(next.Cut, func(c cutDelivery) bool {
		return bytes.Equal(c.Key, l.Key)
	})
	next.Last = []lastDelivery{l}
	return next
}

// wrong returns what is wrong with deliveries read from a store, or nil.
func (d *deliveries) wrong() error {
	bad := len(d.Whole)%deliveryKeySize != 0 || len(d.Whole) > DeliveriesMax*deliveryKeySize ||
		len(d.Cut) > cutDeliveriesMax || len(d.Last) > 1
	for _, c := range d.Cut {
		bad = bad || len(c.Key) != deliveryKeySize || c.Fed < 0
	}
	for _, l := range d.Last {
		bad = bad || len(l.Key) != deliveryKeySize || l.From < 0 || l.Before < 0 || l.Bytes < 1
	}
	if bad {
		return fmt.Errorf(
			"delivery records: found %d bytes of keys, %d cut deliveries, %d last deliveries; "+
				"expected keys of %d bytes, and at most %d, %d and "+
				"1", len(d.Whole), len(d.Cut), len(d.Last),
			deliveryKeySize, DeliveriesMax, cutDeliveriesMax)
	}
	return nil
}

// cutDelivery records, before other text is fed, how much the session has of a delivery under way.
// This is all text until the offset, and the newline that is fed next, if its size newline is not
// 0.
func (s *session) cutDelivery(ctx context.Context, newline int) error {
	s.mu.Lock()
	d, offset := s.Deliveries, s.mu.seen.offset+int64(newline)
	s.mu.Unlock()
	if d == nil || len(d.Last) == 0 || d.Last[0].whole(offset) {
		return nil
	}
	return s.changeHead(ctx, func(h *head) { h.Deliveries = d.end(offset) })
}

// changeHead changes the head of a session that the caller feeds.
func (s *session) changeHead(ctx context.Context, change func(*head)) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if err := s.claimLocked(ctx); err != nil {
		return err
	}
	next := s.head
	change(&next)
	if err := s.setHeadLocked(ctx, &next); err != nil {
		return err
	}
	s.noteHeadLocked(&next)
	return nil
}
