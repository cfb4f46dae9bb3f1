package incidents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lmserve/lmserve/internal/strictjson"
)

// ErrState reports bytes that are not the state of a tracker.
var ErrState = errors.New("not the state of an incident tracker")

// StateBytesMax is an upper bound of the size of an encoded state.
const StateBytesMax = 128 << 10

// MarshalText returns the state of the tracker, which is its stored incidents, as JSON.
func (t *Tracker) MarshalText() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(t.Incidents())
	return bytes.TrimSpace(out.Bytes()), err
}

// UnmarshalText restores the tracker from a state that MarshalText returned. Its errors wrap
// ErrState.
func (t *Tracker) UnmarshalText(state []byte) error {
	var all []Incident
	if len(state) > StateBytesMax {
		return fmt.Errorf("%w: found %d bytes, expected at most %d", ErrState, len(state),
			StateBytesMax)
	}
	if err := strictjson.Unmarshal(state, &all); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	*t = Tracker{}
	if len(all) == 0 {
		return nil
	}
	t.number = all[0].Number
	if len(all) != int(min(t.number, Kept)) {
		return fmt.Errorf("%w: found %d incidents, expected %d", ErrState, len(all),
			min(t.number, Kept))
	}
	for n := range all {
		i := &all[n]
		if i.Number != t.number-int64(n) || !i.valid() {
			return fmt.Errorf("%w: incident %d: found numbers out of their range", ErrState, n)
		}
		if t.kept[(i.Number-1)%Kept] = *i; i.Open() {
			t.open++
		}
	}
	if again, err := t.MarshalText(); err != nil || !bytes.Equal(again, state) {
		return fmt.Errorf("%w: found JSON in another form than lmserve writes", ErrState)
	}
	return nil
}

func (i *Incident) valid() bool {
	texts := [][]string{i.Samples[:], {i.Why.Before, i.Why.Token}, i.Why.Usual}
	for _, c := range i.Changes {
		texts = append(texts, []string{c.Kind, c.Evidence})
	}
	for _, list := range texts {
		for _, text := range list {
			if len(text) > SampleBytes {
				return false
			}
		}
	}
	return i.First >= 1 && i.Last >= i.First && i.Offset >= 0 && i.Lines >= 1 &&
		i.Lines <= i.Last-i.First+1 && 0 <= i.Strange && i.Strange <= i.Lines && i.Lines <= stays &&
		i.P > 0 && i.P <= 1 && (i.Closed || !i.Stays) && len(i.Why.Usual) <= samplesMost &&
		len(i.Changes) <= changesMost
}
