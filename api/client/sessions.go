package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
)

// A SessionPatch says what is to be changed of a session. Its zero value changes nothing.
type SessionPatch struct {
	// Name is to be the session's name: "" takes the name away, and nil leaves it as it is.
	Name *string `json:"name,omitempty"`
	// Labels are to be set or, where they are nil, taken away; all others stay.
	Labels map[string]*string `json:"labels,omitempty"`
	// TTLSeconds is the time without use after which the session is deleted: 0 is never, and nil
	// leaves it as it is.
	TTLSeconds *int64 `json:"ttl_seconds,omitempty"`
	// Detach makes of a shadow a session of its own.
	Detach Null `json:"shadow_of,omitzero"`
}

// Null is null in JSON if it is true, and is left out if it is false.
type Null bool

// MarshalJSON writes null.
func (Null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// CreateSession makes a session without a name. The zero request has the model's defaults.
func (c *Client) CreateSession(ctx context.Context, r SessionRequest) (Session, error) {
	body, err := jsonBody(r)
	if err != nil {
		return Session{}, err
	}
	return object[Session](c, request(newCreateSessionRequest(ctx, c.base, mediaJSON, body)))
}

// EnsureSession makes the session of a name, or finds it, and says whether it made it. A session
// that is found must have what the request asks for, but for labels and TTLSeconds, which are for
// the making alone: else the error is an [Error] of type ProblemSessionDiffers.
func (c *Client) EnsureSession(
	ctx context.Context, name string, r SessionRequest,
) (s Session, made bool, err error) {
	body, err := jsonBody(r)
	if err != nil {
		return Session{}, false, err
	}
	answer, err := c.send(request(newPutSessionRequest(ctx, c.base, name, mediaJSON, body)),
		mediaJSON)
	if err != nil {
		return Session{}, false, err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&s); err != nil {
		return Session{}, false, fmt.Errorf("client: session %s: reading the answer: %w", name, err)
	}
	return s, answer.StatusCode == http.StatusCreated, nil
}

// GetSession describes the session of an id or name.
func (c *Client) GetSession(ctx context.Context, session string) (Session, error) {
	return object[Session](c, request(newGetSessionRequest(ctx, c.base, session)))
}

// PatchSession changes a session's name and labels, and when it expires.
func (c *Client) PatchSession(
	ctx context.Context, session string, p SessionPatch,
) (Session, error) {
	body, err := jsonBody(p)
	if err != nil {
		return Session{}, err
	}
	return object[Session](c, request(newPatchSessionRequest(ctx, c.base, session, mediaJSON,
		body)))
}

// ListIncidents lists the last incidents of a session's lines, and the verdicts on them.
func (c *Client) ListIncidents(ctx context.Context, session string) (IncidentList, error) {
	return object[IncidentList](c, request(newListIncidentsRequest(ctx, c.base, session)))
}

// GiveFeedback says what an incident of a session is worth; nil takes its verdict back. It returns
// the session's incidents as they are then.
func (c *Client) GiveFeedback(
	ctx context.Context, session string, incident int64, v *Verdict,
) (IncidentList, error) {
	body, err := jsonBody(FeedbackRequest{Incident: incident, Verdict: v})
	if err != nil {
		return IncidentList{}, err
	}
	return object[IncidentList](c, request(newGiveFeedbackRequest(ctx, c.base, session, mediaJSON,
		body)))
}

// Suggest looks for what may be typed next behind a session's text, which stays as it is.
func (c *Client) Suggest(
	ctx context.Context, session string, r SuggestRequest,
) (Suggestions, error) {
	body, err := jsonBody(r)
	if err != nil {
		return Suggestions{}, err
	}
	return object[Suggestions](c,
		request(newSuggestRequest(ctx, c.base, session, SuggestParams{}, mediaJSON, body)))
}

// DeleteSession deletes a session, with its text and all that it has learnt.
func (c *Client) DeleteSession(ctx context.Context, session string) error {
	return c.done(request(newDeleteSessionRequest(ctx, c.base, session)))
}

// done makes a request whose answer says nothing.
func (c *Client) done(r made) error {
	answer, err := c.send(r, mediaJSON)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// Sessions lists the sessions of the key, in the order of their ids; only those with a label if one
// is given, as NAME:VALUE, or as NAME for any value. An error ends the list.
func (c *Client) Sessions(ctx context.Context, label string) iter.Seq2[Session, error] {
	return func(yield func(Session, error) bool) {
		params := ListSessionsParams{Label: orNil(label)}
		for {
			page, err := object[struct {
				Sessions []Session
				Next     *string
			}](c, request(newListSessionsRequest(ctx, c.base, params)))
			if err != nil {
				yield(Session{}, err)
				return
			}
			for _, s := range page.Sessions {
				if !yield(s, nil) {
					return
				}
			}
			if params.After = page.Next; page.Next == nil {
				return
			}
		}
	}
}

// ForkSession makes a session that has the text of another, all of it or up to r.AtOffset, and goes
// its own way from there.
func (c *Client) ForkSession(
	ctx context.Context, session string, r ForkRequest,
) (Session, error) {
	body, err := jsonBody(r)
	if err != nil {
		return Session{}, err
	}
	return object[Session](c, request(newForkSessionRequest(ctx, c.base, session, mediaJSON, body)))
}

// An Export says what is in the file that a session was exported to.
type Export struct {
	Bytes int64 // of the file
	// Part is "" if the whole session is in the file. Of a session that damage has touched it is
	// `bytes FIRST-LAST/KNOWN`: those bytes of its text that are in the file, of so many.
	Part   string
	Damage string // what is damaged; "" if nothing is
}

// ExportSession writes a session to w as one file, which [Client.ImportSession] reads. After an
// error w has got a part of the file.
func (c *Client) ExportSession(ctx context.Context, session string, w io.Writer) (Export, error) {
	var params GetSnapshotParams // it waits as long as it takes
	answer, err := c.send(
		request(newGetSnapshotRequest(ctx, c.base, session, params)), "application/x-tar")
	if err != nil {
		return Export{}, err
	}
	defer answer.Body.Close()
	n, err := io.Copy(w, answer.Body)
	if err != nil {
		err = fmt.Errorf("client: exporting session %s: %w", session, err)
	}
	header := answer.Header
	return Export{n, header.Get("Lmserve-Part"), header.Get("Lmserve-Damage")}, err
}

// ImportSession makes a session of the file that [Client.ExportSession] wrote. It has a new id, and
// a name if one is given.
func (c *Client) ImportSession(ctx context.Context, file io.Reader, name string) (Session, error) {
	params := ImportSessionParams{Name: orNil(name)}
	return object[Session](c, request(
		newImportSessionRequest(ctx, c.base, params, mediaBytes, file)))
}
