package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
)

// A SessionPatch changes a session. The zero value changes nothing.
type SessionPatch struct {
	// Name is the new name: "" removes it, and nil leaves it unchanged.
	Name *string `json:"name,omitempty"`
	// Labels sets the labels in the map, and removes those whose value is nil. Other labels stay.
	Labels map[string]*string `json:"labels,omitempty"`
	// TTLSeconds is the time without use after which the session is deleted: 0 means never, and nil
	// leaves it unchanged.
	TTLSeconds *int64 `json:"ttl_seconds,omitempty"`
	// Detach turns a shadow into an ordinary session.
	Detach Null `json:"shadow_of,omitzero"`
}

// Null encodes as null if true, and is omitted if false.
type Null bool

// MarshalJSON writes null.
func (Null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// CreateSession creates a session without a name. The zero request uses the model's defaults.
func (c *Client) CreateSession(ctx context.Context, r SessionRequest) (Session, error) {
	body, err := jsonBody(r)
	if err != nil {
		return Session{}, err
	}
	return object[Session](c, request(newCreateSessionRequest(ctx, c.base, mediaJSON, body)))
}

// EnsureSession returns the session with the given name, and reports whether this call created the
// session. An existing session must match the request, except for labels and TTLSeconds, which
// apply only to new sessions. Otherwise the error is an [Error] of type ProblemSessionDiffers.
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

// GetSession returns the description of a session, given by id or name.
func (c *Client) GetSession(ctx context.Context, session string) (Session, error) {
	return object[Session](c, request(newGetSessionRequest(ctx, c.base, session)))
}

// PatchSession changes a session's name, labels and expiry.
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

// ListIncidents lists the last incidents of a session and their verdicts.
func (c *Client) ListIncidents(ctx context.Context, session string) (IncidentList, error) {
	return object[IncidentList](c, request(newListIncidentsRequest(ctx, c.base, session)))
}

// GiveFeedback sets the verdict on an incident; a nil verdict removes the old one. GiveFeedback
// returns the session's incidents after the change.
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

// Suggest finds likely continuations of a session's text, and does not change the session.
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

// DeleteSession deletes a session with its text and everything it has learned.
func (c *Client) DeleteSession(ctx context.Context, session string) error {
	return c.done(request(newDeleteSessionRequest(ctx, c.base, session)))
}

func (c *Client) done(r made) error {
	answer, err := c.send(r, mediaJSON)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// Sessions lists the key's sessions in order of id. If label is not "", the list has only sessions
// with that label, given as NAME:VALUE, or as NAME for any value. An error is the last item.
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

// ForkSession creates an independent session that starts with the text of another session.
// Parameter r.AtOffset limits this text to its first bytes; nil means all of it.
func (c *Client) ForkSession(
	ctx context.Context, session string, r ForkRequest,
) (Session, error) {
	body, err := jsonBody(r)
	if err != nil {
		return Session{}, err
	}
	return object[Session](c, request(newForkSessionRequest(ctx, c.base, session, mediaJSON, body)))
}

// An Export describes the file of an exported session.
type Export struct {
	Bytes int64
	// Part is "" if the file has the whole session. For a damaged session it is `bytes
	// FIRST-LAST/KNOWN`: the range of text bytes in the file, and the session's length.
	Part   string
	Damage string // description of the damage; "" without damage
}

// ExportSession writes a session to w as one file, for [Client.ImportSession]. After an error, w
// has only a part of the file.
func (c *Client) ExportSession(ctx context.Context, session string, w io.Writer) (Export, error) {
	var params GetSnapshotParams // the zero value waits for a turn without a time limit
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

// ImportSession creates a session from a file that [Client.ExportSession] wrote. The session has a
// new id, and a name if one is given.
func (c *Client) ImportSession(ctx context.Context, file io.Reader, name string) (Session, error) {
	params := ImportSessionParams{Name: orNil(name)}
	return object[Session](c, request(
		newImportSessionRequest(ctx, c.base, params, mediaBytes, file)))
}
