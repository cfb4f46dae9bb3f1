package scheduler

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWaitingKeySeesOtherKeysGrantedAtMostOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l line
		inLine := map[string][]*ticket{}
		// grants[a][b] counts the workers that key b got while key a waited, since key a last got a
		// worker.
		grants := map[string]map[string]int{}
		keys := rapid.IntRange(1, 6).Draw(t, "keys")
		drawKey := func() string {
			return fmt.Sprint("key ", rapid.IntRange(1, keys).Draw(t,
				"key"))
		}
		granted := func(key string) {
			delete(grants, key)
			if len(inLine[key]) > 0 {
				grants[key] = map[string]int{}
			}
			for waits, of := range grants {
				if waits == key {
					continue
				}
				of[key]++
				require.LessOrEqual(t, of[key], 1, "%s was granted twice while %s waited", key,
					waits)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(*rapid.T) {
				key := drawKey()
				ticket := &ticket{job: Job{Key: key}}
				l.join(ticket)
				if len(inLine[key]) == 0 {
					grants[key] = map[string]int{}
				}
				inLine[key] = append(inLine[key], ticket)
			},
			"leave": func(t *rapid.T) {
				key := drawKey()
				if len(inLine[key]) == 0 {
					t.Skip("nobody waits")
				}
				i := rapid.IntRange(0, len(inLine[key])-1).Draw(t, "which")
				gone := inLine[key][i]
				require.True(t, l.leave(gone))
				require.False(t, l.leave(gone))
				inLine[key] = append(inLine[key][:i:i], inLine[key][i+1:]...)
				if len(inLine[key]) == 0 {
					delete(grants, key)
				}
			},
			"a worker comes free": func(t *rapid.T) {
				next := l.next()
				if l.length == 0 && next == nil {
					for _, waiting := range inLine {
						require.Empty(t, waiting)
					}
					return
				}
				key := next.job.Key
				require.Same(t, inLine[key][0], next, "the first that came of its key")
				inLine[key] = inLine[key][1:]
				granted(key)
			},
			"a worker is idle": func(t *rapid.T) {
				if l.length > 0 {
					t.Skip("it would not be")
				}
				l.grant(drawKey())
			},
			"": func(t *rapid.T) {
				waiting := 0
				for _, of := range inLine {
					waiting += len(of)
				}
				require.Equal(t, waiting, l.length)
				require.LessOrEqual(t, len(l.keys), keys)
			},
		})
	})
}

func TestRequestsWithoutWorkerGoFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l line
		var first, others []*ticket
		row := 0
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				new := &ticket{job: Job{First: rapid.Bool().Draw(t, "first")}}
				l.join(new)
				if new.job.First {
					first = append(first, new)
				} else {
					others = append(others, new)
				}
			},
			"a worker comes free": func(t *rapid.T) {
				next := l.next()
				switch {
				case len(first) > 0 && (len(others) == 0 || row < firstsInRow):
					require.Same(t, first[0], next)
					if first = first[1:]; len(others) > 0 {
						row++
					} else {
						row = 0
					}
				case len(others) > 0:
					require.Same(t, others[0], next)
					others, row = others[1:], 0
				default:
					require.Nil(t, next)
				}
				if l.length == 0 && next != nil {
					row = 0
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(first), l.first)
				require.Equal(t, len(first)+len(others), l.length)
			},
		})
	})
}

// A request of a new key waits only for chunks in progress, not for the queued requests of another
// key.
func TestShortRequestOvertakesUploadsOfAnotherKey(t *testing.T) {
	sc := newTestScheduler(t, 2)
	greedy := func(n int) Job {
		return Job{Key: "greedy", Session: fmt.Sprint("upload ", n),
			Chunk: 16}
	}
	one, two := mustAcquire(t, sc, greedy(1)), mustAcquire(t, sc, greedy(2))
	got := make(chan string)
	for n := range 60 {
		inLine(t, sc, context.Background(), greedy(3+n), got)
	}
	short := Job{Key: "other", Session: "short", Chunk: 16}
	inLine(t, sc, context.Background(), short, got)
	sc.release(one)
	require.Equal(t, "short", <-got)
	for range 60 {
		require.Contains(t, <-got, "upload ")
	}
	sc.release(two)
	soon(t, "all are back", func() bool {
		sc.mu.Lock()
		defer sc.mu.Unlock()
		return sc.mu.active == 0
	})
}
