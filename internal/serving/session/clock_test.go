package session

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The clock of a computer may be wrong by millennia. Stored times are limited to the years 1970 to
// 9999. So they can be written as JSON, and a server can import its own exports.
func TestTimesThatAreStoredCanBeRead(t *testing.T) {
	for year, want := range map[int]int{
		1930: 1970, 1970: 1970, 9999: 9999, 10000: 9999, 250_000: 9999,
	} {
		sv := newServer(t, t.TempDir(), Options{})
		now := time.Date(year, 12, 31, 23, 59, 59, 1, time.UTC)
		sv.mg.engine.clock.read = func() time.Time { return now }
		id := create(t, sv.mg, CreateRequest{})
		score(t, sv.mg, id, logText(2*testChunk))
		exported := export(t, sv.mg, id)
		imported, err := sv.mg.Import(background, Caller{}, bytes.NewReader(exported), "")
		require.NoError(t, err, year)
		for _, info := range []Info{get(t, sv.mg, id), imported} {
			for _, at := range []time.Time{info.Created, info.LastUsed} {
				_, err := json.Marshal(at)
				require.NoError(t, err, year)
				require.Equal(t, want, at.Year(), year)
			}
		}
		sv.restart()
		require.Equal(t, want, get(t, sv.mg, id).LastUsed.Year(), year)
		sv.stop()
	}
}

// Sessions were last used while the clock was wrong. After a restart, the server does not delete
// these sessions at once: each gets its whole TTL again.
func TestWrongClockExpiresNothingAtStart(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	now := time.Now()
	read := func() time.Time { return now }
	for _, year := range []int{1970, 2500} {
		now = time.Date(year, 1, 2, 0, 0, 0, 0, time.UTC)
		sv.mg.engine.clock.read = read
		id := create(t, sv.mg, CreateRequest{TTL: time.Hour})
		score(t, sv.mg, id, logText(testChunk))
		require.Equal(t, year, get(t, sv.mg, id).LastUsed.Year())
		sv.restart() // after the restart, the clock is right
		get(t, sv.mg, id)
		now = time.Now().Add(time.Hour + time.Minute)
		sv.mg.engine.clock.read = read
		_, err := sv.mg.Get(Caller{}, id)
		require.ErrorIs(t, err, ErrNotFound)
	}
}
