package server

import (
	"bytes"
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

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
)

// contractRouter is built once, because building it is slow.
var (
	makeRouter     sync.Once
	contractRouter routers.Router
)

// FuzzRequest posts any body with any path, query and headers. Every answer must follow the
// contract and must not be a server error. The id of an existing session replaces {id} in a path.
// testdata has at least one seed for each request body of the contract.
func FuzzRequest(f *testing.F) {
	m, err := modeltest.Small()
	require.NoError(f, err)
	mg, err := session.NewManager(m, session.Options{Threads: 1, MaxSessionBytes: 1 << 20})
	require.NoError(f, err)
	s, err := New(mg, Options{ScoreBodyBytesMax: 1 << 16})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, s.Drain(context.Background())) })
	f.Fuzz(func(t *testing.T, path, query, kind, accept string, chunked bool, body []byte) {
		who := session.Caller{}
		info, err := mg.Create(t.Context(), who, session.CreateRequest{})
		require.NoError(t, err)
		// limits the time of a long completion
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		r := httptest.NewRequest("POST", "http://localhost/",
			bytes.NewReader(body)).WithContext(ctx)
		r.URL.Path, r.URL.RawQuery = "/"+strings.TrimPrefix(strings.ReplaceAll(path, "{id}",
			info.ID), "/"), query
		if chunked {
			r.ContentLength = -1
		}
		r.Header["Content-Type"], r.Header["Accept"] = []string{kind}, []string{accept}
		w := httptest.NewRecorder()
		if abandoned := serve(s, w, r); abandoned {
			require.Error(t, ctx.Err(), "given up, though somebody waits for it")
		} else {
			answered(t, r, w.Result())
		}
		w = httptest.NewRecorder()
		s.router.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/v1/sessions", nil))
		for _, x := range decode[api.SessionList](t, w.Result(), http.StatusOK).Sessions {
			require.NoError(t, mg.Delete(who, x.ID))
		}
	})
}

// serve handles a request and reports whether the handler cut the connection.
func serve(s *Server, w http.ResponseWriter, r *http.Request) (abandoned bool) {
	defer func() {
		if p := recover(); p != nil {
			err, _ := p.(error)
			if abandoned = errors.Is(err, http.ErrAbortHandler); !abandoned {
				panic(p)
			}
		}
	}()
	s.router.ServeHTTP(w, r)
	return false
}

func answered(t *testing.T, r *http.Request, resp *http.Response) {
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Less(t, resp.StatusCode, http.StatusInternalServerError, "%s", raw)
	makeRouter.Do(func() { contractRouter = router(t) })
	c := &checkedTransport{t: t, doc: document(t), router: contractRouter}
	if media := resp.Header.Get("Content-Type"); media == contract.MediaEventStream ||
		media == contract.MediaNDJSON {
		c.checkStream(r, media, raw)
		return
	}
	c.checkWhole(r, resp, raw)
}
