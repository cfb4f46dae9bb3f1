package middleware

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// headerDelivery carries the key of a delivery that another server has forwarded.
const headerDelivery = "Lmserve-Delivery"

type peersKey struct{}

// peers gives access to the other servers for a request with logs for several sessions. Such a
// request is not forwarded as a whole, because its sessions may be on different servers.
type peers struct {
	*passing
	header http.Header // headers of the original request
}

// FeedElsewhere feeds a text of whole lines to a session of another server, as a delivery. The
// argument key identifies the delivery, or is "". The other server waits for earlier requests of
// the session until the deadline of ctx. Once the delivery has begun, it is fed to its end even if
// the client leaves.
//
// The result fed is false, with a nil error, if the session is on this server or does not exist.
// The error is a problem.
func FeedElsewhere(ctx context.Context, name, key string, text []byte) (fed bool, err error) {
	p, passes := ctx.Value(peersKey{}).(*peers)
	if !passes {
		return false, nil
	}
	deadline, _ := ctx.Deadline()
	wait := max(0, time.Until(deadline))
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	addr, _, err := p.places.Session(ctx, CallerOf(ctx).Key, name)
	if err != nil {
		return false, problem.Of(fmt.Errorf("%w: %w", session.ErrUnavailable, err))
	}
	if addr == "" {
		return false, nil
	}
	p.told()
	go p.attend(ctx, addr, cancel)
	if err = p.feed(ctx, addr, name, key, wait, text); err == nil {
		return true, nil
	}
	switch problem.Of(err).Status {
	case http.StatusNotFound:
		return false, nil
	// the other server has not read the new key yet
	case http.StatusUnauthorized, http.StatusForbidden:
		return false, unreachable(err)
	}
	return false, err
}

func (p *peers) feed(
	ctx context.Context, addr, name, key string, wait time.Duration, text []byte,
) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost,
		fmt.Sprintf("%s/v1/sessions/%s/score?unit=incident&wait=%dms", addr, url.PathEscape(name),
			wait.Milliseconds()), bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("server: invalid address of another server: %w", err)
	}
	for name, value := range map[string]string{
		"Accept":               contract.MediaJSON,
		"Authorization":        p.header.Get("Authorization"),
		"Content-Type":         contract.MediaForm, // media type of a delivery of lines
		answer.HeaderRequestID: answer.RequestID(ctx),
		headerDelivery:         key,
		headerProxied:          "1",
	} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	resp, err := p.transport.RoundTrip(r)
	if err != nil {
		return unreachable(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return unreachable(err)
		}
		return nil
	}
	var told api.Problem
	if err := json.NewDecoder(io.LimitReader(resp.Body, limits.JSONBodyBytesMax)).
		Decode(&told); err != nil {
		return unreachable(fmt.Errorf("status %d: %w", resp.StatusCode, err))
	}
	return &problem.Problem{Problem: told}
}

func unreachable(cause error) *problem.Problem {
	told := problem.New(api.ProblemOverloaded, "The server that holds the session cannot be "+
		"reached. Repeat the request: if that server stays unreachable, another server takes "+
		"the session over.")
	told.RetryAfter, told.Cause = limits.RetryAfterBusy, cause
	return told
}
