package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/routers"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/session"
)

// contractRouter is made once: that takes a while.
var (
	makeRouter     sync.Once
	contractRouter routers.Router
)

// FuzzRequest sends requests with any body, query and headers to every route that takes a body: the answer is one of the contract's, and never a failure of
// the server. Seeds are in testdata.
func FuzzRequest(f *testing.F) {
	m, err := realModel()
	require.NoError(f, err)
	mg, err := session.NewManager(m, session.Options{Threads: 1, MaxSessionBytes: 1 << 20})
	require.NoError(f, err)
	s, err := New(mg, Options{ScoreBodyBytesMax: 1 << 16})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, s.Drain(context.Background())) })
	f.Fuzz(func(t *testing.T, route byte, query, kind, accept string, body []byte) {
		who := session.Caller{}
		info, err := mg.Create(t.Context(), who, session.CreateRequest{})
		require.NoError(t, err)
		path := []string{"/v1/sessions", "/v1/sessions/" + info.ID + "/score", "/v1/sessions/" + info.ID + "/complete"}[route%3]
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // a long completion
		defer cancel()
		r := httptest.NewRequest("POST", path, strings.NewReader(string(body))).WithContext(ctx)
		r.URL.RawQuery = query
		if route >= 128 { // of a length that nobody knows
			r.ContentLength = -1
		}
		r.Header["Content-Type"], r.Header["Accept"] = []string{kind}, []string{accept}
		w := httptest.NewRecorder()
		if abandoned := serve(s, w, r); abandoned {
			require.Error(t, ctx.Err(), "given up, though somebody waits for it")
		} else {
			answered(t, r, w.Result())
		}
		all, _ := mg.List(who, "", session.ListMax)
		for _, x := range all {
			require.NoError(t, mg.Delete(who, x.ID))
		}
	})
}

// serve tells whether the handler has cut the connection.
func serve(s *Server, w http.ResponseWriter, r *http.Request) (abandoned bool) {
	defer func() {
		if p := recover(); p != nil {
			err, _ := p.(error)
			if abandoned = errors.Is(err, http.ErrAbortHandler); !abandoned {
				panic(p)
			}
		}
	}()
	s.ServeHTTP(w, r)
	return false
}

// answered holds an answer against the contract.
func answered(t *testing.T, r *http.Request, resp *http.Response) {
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Less(t, resp.StatusCode, http.StatusInternalServerError, "%s", raw)
	makeRouter.Do(func() { contractRouter = router(t) })
	c := &checkedTransport{t: t, doc: document(t), router: contractRouter}
	if media := resp.Header.Get("Content-Type"); media == mediaEventStream || media == mediaNDJSON {
		c.checkStream(r, media, raw)
		return
	}
	c.checkWhole(r, resp, raw)
}
