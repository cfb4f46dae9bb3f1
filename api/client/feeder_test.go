package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/serving/session"
)

type transport func(r *http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (r *rig) between(
	t testing.TB, f func(r *http.Request, pass http.RoundTripper) (*http.Response, error),
) *client.Client {
	return r.with(t, client.WithHTTPClient(&http.Client{
		Transport: transport(func(q *http.Request) (*http.Response,
			error) {
			return f(q, r.transport)
		}),
	}))
}

func answer(r *http.Request, status int, media, body string, headers ...string) *http.Response {
	h := http.Header{"Content-Type": {media}}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{
		StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}
}

func problem(
	r *http.Request, status int, kind client.ProblemType, headers ...string,
) *http.Response {
	body := fmt.Sprintf(`{"type": %q, "title": "no", "status": %d, "request_id": "x"}`, kind,
		status)
	return answer(r, status, "application/problem+json", body, headers...)
}

func withoutAnswer(r *http.Request, pass http.RoundTripper) (*http.Response, error) {
	a, err := pass.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, a.Body)
	return nil, errors.Join(errors.New("the answer was lost"), err, a.Body.Close())
}

func isScore(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/score") }

func TestFeederNoticesThatSomebodyElseFeeds(t *testing.T) {
	r, ctx := newRig(t, session.Options{}), context.Background()
	s, err := r.CreateSession(ctx, client.SessionRequest{})
	require.NoError(t, err)
	f := r.NewFeeder(s.ID, client.FeedOptions{})
	require.NoError(t, f.Feed(ctx, []byte("first")))
	_, err = r.ScoreText(ctx, s.ID, []byte("no"), client.ScoreOptions{})
	require.NoError(t, err)
	err = f.Feed(ctx, []byte("second"))
	require.Equal(t, &client.MovedError{Session: s.ID, Expected: 5, Found: 7}, err)
	require.Equal(t, err, f.Feed(ctx, []byte("third")), "a feeder that has ended stays so")
	require.EqualValues(t, 5, f.Offset())
}

// After a lost answer, the session may contain another client's text. The feeder notices the
// difference, because different texts have different probabilities.
func TestFeederRecognizesItsText(t *testing.T) {
	r, ctx := newRig(t, session.Options{}), context.Background()
	s, err := r.CreateSession(ctx, client.SessionRequest{})
	require.NoError(t, err)
	first := true
	c := r.between(t, func(q *http.Request, pass http.RoundTripper) (*http.Response, error) {
		if isScore(q) && first {
			first = false
			_, err := r.ScoreText(ctx, s.ID, []byte("theirs"), client.ScoreOptions{})
			return nil, errors.Join(errors.New("the request was lost"), err)
		}
		return pass.RoundTrip(q)
	})
	err = c.NewFeeder(s.ID, client.FeedOptions{}).Feed(ctx, []byte("ours, which is longer"))
	require.Equal(t, &client.MovedError{Session: s.ID, Expected: 6, Found: 6}, err)
}

func TestEventsThatCannotBeMadeAgainAreReportedAsLost(t *testing.T) {
	r, ctx := newRig(t, session.Options{}), context.Background()
	text := requests(3)
	for name, goOn := range map[string]bool{
		"and end the feeding": false, "and feeding goes on": true,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := r.CreateSession(ctx, client.SessionRequest{})
			require.NoError(t, err)
			answers := 0
			c := r.between(t, func(q *http.Request, pass http.RoundTripper) (*http.Response,
				error) {
				if strings.HasSuffix(q.URL.Path, "/fork") {
					return problem(q, http.StatusGone, client.ProblemHistoryTrimmed), nil
				}
				if isScore(q) {
					if answers++; answers == 2 {
						return withoutAnswer(q, pass)
					}
				}
				return pass.RoundTrip(q)
			})
			var told []int64
			var lost *client.LostError
			o := client.FeedOptions{
				Score: client.ScoreOptions{Lines: true},
				Event: func(e client.Event) error {
					told = append(told,
						e.Line.Number)
					return nil
				},
			}
			if goOn {
				o.Lost = func(e *client.LostError) error { lost = e; return nil }
			}
			f := c.NewFeeder(s.ID, o)
			for line := range strings.Lines(text) {
				if err = f.Feed(ctx, []byte(line)); err != nil {
					break
				}
			}
			if !goOn {
				require.ErrorAs(t, err, &lost)
			} else {
				require.NoError(t, err)
				require.Equal(t, []int64{1, 3}, told)
			}
			require.Equal(t, s.ID, lost.Session)
			require.EqualValues(t, len(text)/3, lost.From)
			require.EqualValues(t, len(text)/3*2, lost.To)
			require.True(t, client.Is(lost, client.ProblemHistoryTrimmed))
		})
	}
}

func TestReplayTellsWhatFeedingHasTold(t *testing.T) {
	r, ctx := newRig(t, session.Options{}), context.Background()
	for _, kind := range []string{"lines", "unflagged", "chunks"} {
		text := requests(60) + "the line under way"
		fed := newListener(r.Client, kind)
		fed.feed(t, strings.NewReader(text), 256)
		for _, from := range []int{0, 700, len(text) - 5, len(text)} {
			again := &listener{score: fed.score, at: int64(from)}
			if fed.score.Lines { // a line is reported whole, even if it began before offset `from`
				again.at = int64(strings.LastIndexByte(text[:from], '\n') + 1)
			}
			before := again.at
			require.NoError(t, r.Replay(ctx, fed.id, int64(from), []byte(text[from:]),
				client.FeedOptions{
					Score: fed.score, Event: func(e client.Event) error {
						again.hear(t,
							e)
						return nil
					},
				}))
			if n := len(again.heard); n > 0 {
				require.Equal(t, fed.heard[len(fed.heard)-n:], again.heard)
				require.EqualValues(t, len(text), again.at)
			} else {
				require.Equal(t, before, again.at)
			}
		}
	}
	for s, err := range r.Sessions(ctx, "replay-of") {
		t.Errorf("the fork %s is left: %v", s.ID, err)
	}
}

func TestErrorOfCallerEndsFeeding(t *testing.T) {
	r, ctx := newRig(t, session.Options{}), context.Background()
	s, err := r.CreateSession(ctx, client.SessionRequest{})
	require.NoError(t, err)
	enough := errors.New("enough")
	_, err = r.Feed(ctx, s.ID, strings.NewReader(requests(5)), client.FeedOptions{
		Event: func(client.Event) error { return enough },
	})
	require.True(t, err == enough, err)
}

func TestFeedingEndsWithContextWhileReaderWaits(t *testing.T) {
	r := newRig(t, session.Options{})
	s, err := r.CreateSession(context.Background(), client.SessionRequest{})
	require.NoError(t, err)
	text, writer := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := r.Feed(ctx, s.ID, text, client.FeedOptions{
			Event: func(client.Event) error { cancel(); return nil },
		})
		ended <- err
	}()
	_, err = writer.Write([]byte("what is there is fed at once"))
	require.NoError(t, err)
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, writer.Close())
}

func TestReaderErrorIsReportedAfterItsTextIsFed(t *testing.T) {
	r, ctx := newRig(t, session.Options{}), context.Background()
	s, err := r.CreateSession(ctx, client.SessionRequest{})
	require.NoError(t, err)
	broken := errors.New("the disk is on fire")
	text := io.MultiReader(strings.NewReader("text"), transportReader{broken})
	offset, err := r.Feed(ctx, s.ID, text, client.FeedOptions{})
	require.ErrorIs(t, err, broken)
	require.EqualValues(t, 4, offset)
}

type transportReader struct{ err error }

func (r transportReader) Read([]byte) (int, error) { return 0, r.err }

func nowhere(t *testing.T, f transport, options ...client.Option) *client.Client {
	t.Helper()
	options = append(options, client.WithHTTPClient(&http.Client{Transport: f}))
	c, err := client.New("http://localhost:8080/", options...)
	require.NoError(t, err)
	return c
}

const described = `{"id": "x", "offset": 3, "step": 0, "totals": {}, "seed": 1}`

func TestPatienceWaitsAsLongAsTheServerSays(t *testing.T) {
	for name, refusal := range map[string]func(r *http.Request) *http.Response{
		"rate": func(r *http.Request) *http.Response {
			return problem(r, http.StatusTooManyRequests, client.ProblemKeyRateLimit, "Retry-After",
				"7")
		},
		"draining": func(r *http.Request) *http.Response {
			return problem(r, http.StatusServiceUnavailable, client.ProblemDraining, "Retry-After",
				"7")
		},
		"busy": func(r *http.Request) *http.Response {
			return problem(r, http.StatusConflict, client.ProblemSessionBusy, "Retry-After", "7")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				ask := func(patience time.Duration) (time.Duration, error) {
					c := nowhere(t, func(r *http.Request) (*http.Response, error) {
						text, err := io.ReadAll(r.Body)
						require.NoError(t, err)
						require.Equal(t, `{"seed":1}`, string(text), "each attempt has the body")
						if asked++; asked < 3 {
							return refusal(r), nil
						}
						return answer(r, http.StatusCreated, "application/json", described), nil
					}, client.WithPatience(patience))
					begun := time.Now()
					_, err := c.CreateSession(t.Context(),
						client.SessionRequest{Seed: new(uint64(1))})
					return time.Since(begun), err
				}
				took, err := ask(time.Minute)
				require.NoError(t, err)
				require.Equal(t, 14*time.Second, took)
				asked = 0
				took, err = ask(10 * time.Second)
				var refused *client.Error
				require.ErrorAs(t, err, &refused)
				require.Equal(t, 7*time.Second, refused.RetryAfter)
				require.Equal(t, 7*time.Second, took)
			})
		})
	}
}

func TestFeederWaitsForMissingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		c := nowhere(t, func(*http.Request) (*http.Response, error) { return nil, refused })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		waits, longest := 0, time.Duration(0)
		err := c.NewFeeder("x", client.FeedOptions{Waiting: func(cause error, pause time.Duration) {
			require.ErrorIs(t, cause, refused)
			waits, longest = waits+1, max(longest, pause)
		}}).Feed(ctx, []byte("text"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, refused, "the error says what it waited for")
		require.Greater(t, waits, 3600/5)
		require.LessOrEqual(t, longest, 5*time.Second)
	})
}

func TestStalledAnswerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scores := 0
		c := nowhere(t, func(r *http.Request) (*http.Response, error) {
			if !isScore(r) {
				return answer(r, http.StatusOK, "application/json", described), nil
			}
			if scores++; scores == 1 {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			summary := `{"type": "summary", "offset": 7}` + "\n"
			return answer(r, http.StatusOK, "application/x-ndjson", summary), nil
		})
		f := c.NewFeeder("x", client.FeedOptions{Stall: time.Minute})
		begun := time.Now()
		require.NoError(t, f.Feed(t.Context(), []byte("text")))
		require.EqualValues(t, 7, f.Offset())
		require.InDelta(t, time.Minute, time.Since(begun), float64(time.Second))
	})
}

// A proxy may refuse a request with an HTML page.
func TestRefusalWithoutProblemDocumentIsError(t *testing.T) {
	c := nowhere(t, func(r *http.Request) (*http.Response, error) {
		return answer(r, http.StatusBadGateway, "text/html", "<h1>no upstream</h1>"), nil
	})
	_, err := c.GetSession(t.Context(), "x")
	require.EqualError(t, err, "the server answers 502: Bad Gateway: <h1>no upstream</h1>")
}

func TestBaseURLIsCheckedBeforeFirstRequest(t *testing.T) {
	for _, wrong := range []string{
		"", "localhost:8080", "ftp://x", "http://", "http://x/?y", "http://x/#y", "::",
	} {
		_, err := client.New(wrong)
		require.ErrorContains(t, err, "base URL", wrong)
	}
}

func TestFeedingRefusesWhatCannotBeFed(t *testing.T) {
	c := nowhere(t, nil)
	for _, o := range []client.FeedOptions{
		{Score: client.ScoreOptions{Learn: client.LearnFalse}}, {BatchBytes: -1}, {Stall: -1},
	} {
		require.Error(t, c.NewFeeder("x", o).Feed(t.Context(), []byte("text")))
		_, err := c.Feed(t.Context(), "x", strings.NewReader("text"), o)
		require.Error(t, err)
	}
}
