package lines

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func stateOf() []byte {
	m := NewMeter()
	text, costs := ordinaryLog(50, 9)
	feed(m, text[:len(text)-9], costs)
	return m.AppendState(nil)
}

func TestStateOfAnotherLengthIsRefused(t *testing.T) {
	state := stateOf()
	for _, n := range []int{0, 1, 2, 100, len(state) - 1} {
		_, err := ReadState(state[:n])
		require.ErrorIs(t, err, ErrState, "%d bytes", n)
	}
	_, err := ReadState(append(state, 0))
	require.ErrorIs(t, err, ErrState)
	state[0]++
	_, err = ReadState(state)
	require.ErrorIs(t, err, ErrState)
}

func TestNumbersThatNoMeterHasAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Meter){
		"number":   func(m *Meter) { m.line.Number = 0 },
		"offset":   func(m *Meter) { m.line.Offset = 3 },
		"bits":     func(m *Meter) { m.line.Bits = -1 },
		"text":     func(m *Meter) { m.text[1] = '\n' },
		"words":    func(m *Meter) { m.rating.words.cells[3] = counted{Lines: 1} },
		"crowds":   func(m *Meter) { m.rating.crowds.Used = crowdsMost + 1 },
		"middle":   func(m *Meter) { m.rating.crowds.Crowds[0].Middle[5] = 1 << 14 },
		"radius":   func(m *Meter) { m.rating.crowds.Radius = -1 },
		"place":    func(m *Meter) { m.rating.places.cells[7].News = 2 },
		"standing": func(m *Meter) { m.rating.places.cells[7].Counts[0] = 2000 },
		"values":   func(m *Meter) { m.rating.values.All.Counts[1] = -1 },
		"count":    func(m *Meter) { m.rating.b.counts[0] = -1 },
		"weight":   func(m *Meter) { m.rating.sum.weight = 0 },
		"last":     func(m *Meter) { m.rating.e.last = 51 },
	} {
		m, err := ReadState(stateOf())
		require.NoError(t, err)
		spoil(m)
		_, err = ReadState(m.AppendState(nil))
		require.ErrorIs(t, err, ErrState, name)
	}
}

// FuzzReadState checks that every accepted state gives a meter that works and that writes the same
// state.
func FuzzReadState(f *testing.F) {
	f.Add(NewMeter().AppendState(nil), uint32(0), byte(0))
	f.Add(stateOf(), uint32(30000), byte(1))
	f.Add(with("denied").AppendState(nil), uint32(7), byte(1))
	f.Fuzz(func(t *testing.T, state []byte, at uint32, flip byte) {
		if len(state) > 0 {
			state[int(at)%len(state)] ^= flip
		}
		m, err := ReadState(state)
		if err != nil {
			require.ErrorIs(t, err, ErrState)
			return
		}
		require.True(t, bytes.Equal(state, m.AppendState(nil)))
		text, costs := ordinaryLog(3, 1)
		for _, l := range feed(m, text, costs) {
			require.True(t, l.P > 0 && l.P <= 1, "P is %v", l.P)
		}
		_, err = ReadState(m.AppendState(nil))
		require.NoError(t, err)
	})
}

// Two words of a line may have the same hash in the table of words.
func TestStateWithWordsOfSameHashIsRead(t *testing.T) {
	type place struct{ set, tag key }
	known := map[place]string{}
	line := ""
	for n := 0; line == ""; n++ {
		word := strings.Map(func(r rune) rune { return r - '0' + 'a' }, strconv.Itoa(n))
		w := spaced(nil, []byte(word))[0]
		at := place{w.key % raritySets, w.key >> 48}
		if other, ok := known[at]; ok {
			line = other + " " + word + "\n"
		}
		known[at] = word
	}
	m := NewMeter()
	feed(m, []byte(line), make([]float64, len(line)))
	_, err := ReadState(m.AppendState(nil))
	require.NoError(t, err)
}
