package companion

import (
	"encoding/binary"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestEncodedStateContinues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := small(rapid.IntRange(1, networksMax).Draw(t, "networks"))
		r := reader{New(set), widest(), someNetworks(set.Networks, 5), 0}
		r.feed(drawText(t, 3000))
		read, err := Decode(set, r.s.AppendTo(nil))
		require.NoError(t, err)
		requireSame(t, r.s, read)
		data := r.s.AppendTo(nil)
		at := rapid.IntRange(0, len(data)).Draw(t, "at")
		part := make([]byte, rapid.IntRange(0, len(data)).Draw(t, "length"))
		n, err := r.s.ReadAt(part, int64(at))
		require.Equal(t, data[at:min(len(data), at+len(part))], part[:n])
		require.Equal(t, n < len(part), err == io.EOF)
		again := reader{read, widest(), r.of, r.at}
		more := drawText(t, 300)
		require.Equal(t, r.feed(more), again.feed(more))
		requireSame(t, r.s, again.s)
	})
}

// The state of a long session keeps the last bytes of its text in a ring buffer. Decode accepts a
// state whose ring has wrapped around.
func TestLongTextsStateIsAccepted(t *testing.T) {
	r := reader{New(small(1)), widest(), uniform(), 0}
	for i := range 5 {
		r.feed(append(prose(20000, uint64(i)), records(20000, uint64(i))...))
		_, err := Decode(small(1), r.s.AppendTo(nil))
		require.NoError(t, err)
	}
}

func TestDecodeSaysWhatIsWrong(t *testing.T) {
	r := reader{New(small(1)), widest(), uniform(), 0}
	r.feed(records(3000, 1))
	whole := r.s.AppendTo(nil)
	table := binary.Size(header{})
	float := len(whole) - 4*floatCount
	nan := math.Float32bits(float32(math.NaN()))
	put := func(at int, v uint32) func([]byte) []byte {
		return func(d []byte) []byte { binary.LittleEndian.PutUint32(d[at:], v); return d }
	}
	for _, c := range []struct {
		damage func([]byte) []byte
		want   string
	}{
		{func(d []byte) []byte { return d[:len(d)-1] }, "bytes, expected"},
		{func(d []byte) []byte { return append(d, 0) }, "bytes, expected"},
		{func(d []byte) []byte { d[0] = 9; return d }, "is of version 9"},
		{func(d []byte) []byte { d[1] = 2; return d }, "for 2 networks"},
		{func(d []byte) []byte { d[2] = 20; return d }, "a table of 2^20 bytes"},
		{func(d []byte) []byte { d[table+1] = 255; return d }, "byte 1 of the table is 255"},
		{put(float, nan), "estimate 0: the probability is NaN"},
		{put(float+4, nan), "estimate 0: the logit is NaN"},
		{put(float+8, nan), "estimate 0: the count is NaN"},
		{put(float+4*weightsAt, nan), "weight 0 is NaN"},
		{put(float+4*refinesAt, nan), "refinement 0 is NaN"},
		{put(table-4, 100), "expected a length of at most 64 and at most 4 misses"},
		{put(table-12, 0), "match 1 has a length but no position"},
		{put(table-12, 1<<31), "match 1 is at position 2147483648"},
		{put(table-4*2*3-8, 1<<31), "a line that is longer than the text"},
	} {
		_, err := Decode(small(1), c.damage(append([]byte(nil), whole...)))
		require.ErrorContains(t, err, c.want)
	}
}

// FuzzDecode checks that every state that Decode accepts is usable: no index is out of range, and
// all results are finite.
func FuzzDecode(f *testing.F) {
	set := small(1)
	r := reader{New(set), widest(), someNetworks(1, 5), 0}
	r.feed(append(prose(4000, 1), records(4000, 1)...))
	whole := r.s.AppendTo(nil)
	f.Add(uint32(0), []byte{1})
	f.Add(uint32(3), []byte{255, 255, 255, 255, 255, 255, 255, 255})
	f.Add(uint32(59), []byte{0, 0, 0, 0, 1, 0, 0, 0})
	f.Add(uint32(len(whole)-4*floatCount), []byte{0, 0, 128, 127})
	f.Fuzz(func(t *testing.T, at uint32, damage []byte) {
		data := append([]byte(nil), whole...)
		copy(data[int(at)%len(data):], damage)
		s, err := Decode(set, data)
		if err != nil {
			return
		}
		again := reader{s, widest(), r.of, 0}
		for _, nll := range again.feed(append(records(200, 1), prose(200, 2)...)) {
			if !(nll >= 0 && nll < 200) {
				t.Fatalf("a byte costs %v nats", nll)
			}
		}
		if _, err := Decode(set, s.AppendTo(nil)); err != nil {
			t.Fatalf("what was accepted led to what is not: %v", err)
		}
	})
}
