package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

type places map[string]storage.Place

func (p places) Locate(_ context.Context, _, text string) (at storage.Place, err error) {
	at, found := p[text]
	if !found {
		return at, storage.ErrNotFound
	}
	return at, nil
}

func TestRequestGoesToServerOfItsSession(t *testing.T) {
	now := time.Unix(1e9, 0)
	b := &book{now: now, until: map[string]time.Time{}}
	self := Node{ID: "a-1", Name: "a", Addr: "http://a"}
	m, err := Join(t.Context(), Options{
		Self: self, Directory: b, Lease: time.Hour, Now: func() time.Time { return now },
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Leave(t.Context())) }()
	r := &Router{
		Member: m, Holds: func(id string) bool { return id == "held" },
		Sessions: places{
			"mine": {ID: "mine", Node: "a-1"}, "new": {ID: "new", Node: "b-1"},
			"free": {ID: "free"},
			"lost": {ID: "lost", Node: "c-1"},
		},
	}
	goes := func(text, addr string) {
		to, found, err := r.Session(t.Context(), "", text)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, addr, to, text)
	}
	for _, text := range []string{"held", "mine", "free", "lost"} {
		goes(text, "")
	}
	_, found, err := r.Session(t.Context(), "", "none")
	require.NoError(t, err)
	require.False(t, found)
	b.others = []Node{{ID: "b-1", Name: "b", Addr: "http://b"}}
	goes("new", "") // the list of nodes was read too recently to be read again
	now = now.Add(time.Second)
	goes("new", "http://b")
	require.True(t, r.Alive("http://b"))
	require.False(t, r.Alive("http://c"))
}

// A session may be of any model of the server that gets the request. A request without a model
// means that server's first model.
func TestNewSessionStaysWithModelsOfServer(t *testing.T) {
	drains := false
	addrs := func(self Node, others ...Node) map[string]bool {
		b := &book{now: time.Unix(1e9, 0), until: map[string]time.Time{}, others: others}
		m, err := Join(t.Context(), Options{
			Self: self, Directory: b, Lease: time.Hour, Now: func() time.Time { return b.now },
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, m.Leave(t.Context())) }()
		if drains {
			require.NoError(t, m.Drain(t.Context()))
		}
		r := &Router{Member: m}
		found := map[string]bool{}
		for i := range 50 {
			found[r.Fresh(fmt.Sprint("session-", i))] = true
		}
		return found
	}
	node := func(name string, models ...string) Node {
		return Node{ID: name + "-1", Name: name, Addr: "http://" + name, Models: models}
	}
	both, one := node("a", "default", "swift"), node("b", "default")
	require.Equal(t, map[string]bool{"": true}, addrs(both, one), "b has no swift")
	require.Equal(t, map[string]bool{"": true, "http://a": true}, addrs(one, both))
	same := node("c", "default", "swift")
	require.Equal(t, map[string]bool{"": true, "http://c": true}, addrs(both, one, same))
	first := node("d", "swift", "default")
	require.Equal(t, map[string]bool{"": true}, addrs(both, first), "d has another default")
	drains = true
	require.Equal(t, map[string]bool{"http://c": true}, addrs(both, one, same))
	require.Equal(t, map[string]bool{"": true}, addrs(both, one, first), "b has no swift")
}
