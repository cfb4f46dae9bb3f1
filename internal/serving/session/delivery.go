package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lmserve/lmserve/internal/serving/session/scheduler"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// These constants limit what a session stores about its deliveries.
const (
	DeliveriesMax    = 256 // limit on the stored keys of complete deliveries
	cutDeliveriesMax = 16  // limit on the stored keys of interrupted deliveries
	deliveryKeySize  = 8   // bytes stored of each key's hash

	// deliveryWhole is a size in bytes. A shutdown waits for a delivery of at most this size that
	// has no key. A delivery with a key is interrupted, because the client can resume it.
	deliveryWhole = 1 << 20
)

// ErrQueueFull means that the session's queue of deliveries is full, or that this delivery waited
// too long in the queue. No text of the delivery was accepted.
var ErrQueueFull = errors.New("session: the queue of the session is full")

// Delivery is a text of whole lines, fed in one request. It begins a new line of the session's
// text. It is fed even if the client disconnects. A shutdown waits for a short delivery without a
// key.
type Delivery struct {
	// Key identifies a delivery that may be repeated. Text that was fed under this key is not fed
	// again. If Key is "", every delivery is new.
	Key  string
	Text []byte // ends with a newline
}

// Deliver feeds a delivery as Score feeds a text. The options may set neither an offset nor
// LearnFalse. The delivery waits in the session's queue for at most o.Wait; after that, the error
// is ErrQueueFull. If the delivery was fed before, Summary.Duplicate is true and no events are
// reported. After an error the client repeats the delivery, so a delivery that was fed whole does
// not fail. If the state for Summary.Rest is then not available, Summary.Rest is nil.
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
	if d.Key == "" && len(d.Text) <= deliveryWhole {
		if err := mg.life.Enter(); err != nil {
			return Summary{}, err
		}
		defer mg.life.Leave()
		f.entered = true
	}
	ctx = context.WithoutCancel(ctx)
	f.sum.Duplicate, err = f.deliver(ctx, d)
	if err == nil && o.Records { // the last line has ended, but its record has not
		resting, cancel := context.WithTimeout(ctx, max(mg.engine.scoreRecovery, o.Wait))
		defer cancel()
		_ = f.restOfLines(resting)
	}
	mg.index.touch(s)
	f.finish(begun)
	return f.sum, err
}

// deliver feeds the part of a delivery that the session does not have yet. duplicate is true if the
// session already has the whole delivery.
func (f *feeder) deliver(ctx context.Context, d Delivery) (duplicate bool, err error) {
	s, key := f.s, d.hash()
	fed, last := s.delivered(key, d.Text)
	switch {
	case fed == len(d.Text):
		return true, nil
	case last: // the session's text ends with a part of this delivery
		return false, f.lines(ctx, d.Text[fed:])
	}
	newline, err := s.missingNewline(ctx)
	if err != nil {
		return false, err
	}
	// The session's text may end with an interrupted part of another delivery. If the last line of
	// that part lacks only the newline, the newline fed below completes this line.
	f.interrupts, f.newline = true, len(newline)
	if err := f.lines(ctx, newline); err != nil {
		return false, err
	}
	if key != nil {
		f.interrupts = false // this change of the head also records the interruption
		err := s.changeHead(ctx, func(h *head) {
			h.Deliveries = h.Deliveries.begin(lastDelivery{
				Key: key, From: s.seen().offset, Before: fed, Bytes: len(d.Text) - fed,
			}, s.seen().offset)
		})
		if err != nil {
			return false, err
		}
	}
	return false, f.lines(ctx, d.Text[fed:])
}

func (f *feeder) lines(ctx context.Context, text []byte) error {
	for len(text) > 0 {
		n, err := f.piece(ctx, text)
		if err != nil {
			return err
		}
		text = text[n:]
	}
	f.s.wholeTo = f.s.seen().offset
	return nil
}

// missingNewline returns a newline if the session's last line lacks a newline, else nil. It also
// returns nil if the session does not keep its text.
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
	case errors.Is(err, storage.ErrRange):
		return nil, nil
	case err != nil:
		return nil, storeError("reading the log of session "+s.ID, err)
	case last != '\n':
		return []byte{'\n'}, nil
	}
	return nil, nil
}

// deliveries is the part of a session's head that records deliveries with keys. It is immutable.
type deliveries struct {
	// hashes of the keys of complete deliveries, oldest first
	Whole []byte         `json:"whole,omitempty"`
	Cut   []cutDelivery  `json:"cut,omitempty"`  // interrupted deliveries, oldest first
	Last  []lastDelivery `json:"last,omitempty"` // at most one element
}

// cutDelivery is a delivery that was interrupted by other text.
type cutDelivery struct {
	Key []byte `json:"key"`
	Fed int    `json:"fed"`
	// Newline is not 0 if Fed counts a newline that another delivery feeds to end the last line. It
	// is the session's offset before this newline. While the session's text ends there, the newline
	// is missing.
	Newline int64 `json:"newline,omitempty"`
}

// lastDelivery is a delivery that may be in progress. The session's offset shows how many bytes of
// the delivery were fed.
type lastDelivery struct {
	Key    []byte `json:"key"`
	From   int64  `json:"from"`   // the session's offset at which the delivery's text begins
	Before int    `json:"before"` // bytes fed before an earlier interruption
	Bytes  int    `json:"bytes"`  // bytes to feed, beginning at offset From
}

// fed returns how many bytes of the delivery are in a session that ends at offset.
func (d *lastDelivery) fed(offset int64) int {
	return d.Before + int(min(max(0, offset-d.From), int64(d.Bytes)))
}

func (d *lastDelivery) whole(offset int64) bool { return d.fed(offset) == d.Before+d.Bytes }

// hash returns a hash of the key and the text, which identifies the delivery; nil without a key. A
// different text under the same key is a different delivery.
func (d *Delivery) hash() []byte {
	if d.Key == "" {
		return nil
	}
	key, text := sha256.Sum256([]byte(d.Key)), sha256.Sum256(d.Text)
	sum := sha256.Sum256(slices.Concat(key[:], text[:]))
	return sum[:deliveryKeySize]
}

// delivered returns how many bytes of a delivery were fed. last is true if the session's text ends
// with these bytes. If other text interrupted the delivery, only whole lines count, because the
// interrupted line is fed again.
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

// end returns the deliveries to store when the delivery in progress ends or is interrupted. offset
// is the end of the session's text. newline is 1 if a newline that ends the last line is fed next,
// else 0.
func (d *deliveries) end(offset int64, newline int) *deliveries {
	next := &deliveries{Whole: d.Whole, Cut: slices.Clone(d.Cut)}
	for _, l := range d.Last {
		if l.whole(offset) {
			next.Whole = slices.Concat(d.Whole, l.Key)
		} else {
			next.Cut = append(next.Cut, cutDelivery{
				Key: l.Key, Fed: l.fed(offset) + newline, Newline: offset * int64(newline),
			})
		}
	}
	next.Whole = next.Whole[max(0, len(next.Whole)-DeliveriesMax*deliveryKeySize):]
	next.Cut = next.Cut[max(0, len(next.Cut)-cutDeliveriesMax):]
	return next
}

// interrupt returns the deliveries to store before other text is fed. It returns d if nothing
// changes. The parameters are as in end. If an earlier request did not feed the newline that it
// counted, and this request does not feed it either, the newline no longer counts.
func (d *deliveries) interrupt(offset int64, newline int) *deliveries {
	if len(d.Last) > 0 && !d.Last[0].whole(offset+int64(newline)) {
		return d.end(offset, newline)
	}
	n := len(d.Cut) - 1
	if newline > 0 || n < 0 || d.Cut[n].Newline == 0 || d.Cut[n].Newline != offset {
		return d
	}
	next := *d
	next.Cut = slices.Clone(d.Cut)
	next.Cut[n] = cutDelivery{Key: d.Cut[n].Key, Fed: d.Cut[n].Fed - 1}
	return &next
}

// begin returns the deliveries to store when the delivery l begins. offset is the end of the
// session's text.
func (d *deliveries) begin(l lastDelivery, offset int64) *deliveries {
	next := new(deliveries)
	if d != nil {
		next = d.end(offset, 0)
	}
	next.Cut = slices.DeleteFunc(next.Cut, func(c cutDelivery) bool {
		return bytes.Equal(c.Key, l.Key)
	})
	next.Last = []lastDelivery{l}
	return next
}

func (d *deliveries) wrong() error {
	bad := len(d.Whole)%deliveryKeySize != 0 || len(d.Whole) > DeliveriesMax*deliveryKeySize ||
		len(d.Cut) > cutDeliveriesMax || len(d.Last) > 1
	for _, c := range d.Cut {
		bad = bad || len(c.Key) != deliveryKeySize || c.Fed < 0 || c.Newline < 0
	}
	for _, l := range d.Last {
		bad = bad || len(l.Key) != deliveryKeySize || l.From < 0 || l.Before < 0 || l.Bytes < 1
	}
	if bad {
		return fmt.Errorf(
			"delivery records: found %d bytes of keys, %d cut deliveries, %d last deliveries; "+
				"expected keys of %d bytes each, and at most %d keys, %d cut deliveries and 1 "+
				"last delivery", len(d.Whole), len(d.Cut), len(d.Last),
			deliveryKeySize, DeliveriesMax, cutDeliveriesMax)
	}
	return nil
}

// interruptLocked records that the request's text interrupts the delivery in progress, and how much
// of the delivery was fed. It is called when the text can be fed, because a request without text
// interrupts no delivery.
func (f *feeder) interruptLocked(ctx context.Context, l *scheduler.Lease) error {
	s, next := f.s, f.s.head
	if !f.interrupts || s.Deliveries == nil {
		return nil
	}
	next.Deliveries = s.Deliveries.interrupt(s.stream.Offset(), f.newline)
	if next.Deliveries == s.Deliveries {
		return nil
	}
	return l.Yield(func() error { return s.setHeadLocked(ctx, &next) }, yieldWait)
}

// changeHead changes the session's head. The caller must have the exclusive right to feed the
// session.
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
	return s.setHeadLocked(ctx, &next)
}
