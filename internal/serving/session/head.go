package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// headVersion is the version of the head's format (docs/formats.md, "The head of a session").
const headVersion = 1

type head struct {
	Version  int               `json:"version"`
	ID       string            `json:"id"`
	Complete bool              `json:"complete"`
	Owner    string            `json:"owner"`
	Created  time.Time         `json:"created"`
	Model    modelName         `json:"model"`
	Settings stream.Settings   `json:"settings"`
	Labels   map[string]string `json:"labels"`
	TTL      time.Duration     `json:"ttl_ns"`
	History  string            `json:"history"`
	Parent   *Parent           `json:"parent"` // null unless the session is a fork
	Numerics []numerics        `json:"numerics"`
	// LinesFrom is the offset from which the text is divided into lines; nil if no request asked
	// for lines.
	LinesFrom *int64 `json:"lines_from,omitempty"`
	// Records is the rule that groups lines into records, such as a message with its stack trace;
	// nil if there is none.
	Records *recordRule `json:"records,omitempty"`
	// ByLine is true if a request used LearnUnflagged, which learns line by line.
	ByLine bool `json:"by_line,omitempty"`
	// TroubleWords lists the words that indicate trouble in a line, such as "error"; "" if there is
	// no list.
	TroubleWords string `json:"trouble_words,omitempty"`
	Name         string `json:"name,omitempty"`
	// ShadowOf is the id of the session that this session follows; "" if this is no shadow.
	ShadowOf string `json:"shadow_of,omitempty"`
	// Feedback lists users' verdicts on incidents.
	Feedback []Feedback `json:"feedback,omitempty"`
	// Deliveries detects requests that a client repeats; nil if no request had a delivery key.
	Deliveries *deliveries `json:"deliveries,omitempty"`
}

type modelName struct {
	Name string `json:"name"`
	Hash string `json:"hash"`
}

func (m modelName) id() string {
	if len(m.Hash) < 12 {
		return m.Name
	}
	return m.Name + "-" + m.Hash[:12]
}

// cutAt removes the fields of the head that refer to text after an offset. It also removes the
// deliveries, because no client repeats a delivery to a copy of the session.
func (h *head) cutAt(end int64) {
	h.Deliveries = nil
	for n := len(h.Numerics) - 1; n > 0 && h.Numerics[n].From > end; n-- {
		h.Numerics = h.Numerics[:n]
	}
	if h.LinesFrom != nil && *h.LinesFrom > end {
		h.LinesFrom, h.TroubleWords, h.ByLine = nil, "", false
	}
	if h.Records != nil && h.Records.From > end {
		h.Records = nil
	}
	h.Feedback = slices.DeleteFunc(slices.Clone(h.Feedback), func(f Feedback) bool {
		return f.Offset >= end // a new incident may reuse the number of a removed incident
	})
}

// numerics records which arithmetic computed a session from an offset on.
type numerics struct {
	From int64  `json:"from"`
	Name string `json:"name"`
}

func (h *head) encode() []byte {
	text, err := json.Marshal(h)
	if err != nil {
		panic(err) // cannot happen: all numbers are finite
	}
	return text
}

// decodeHead accepts only what encode writes. Unknown fields may change the meaning of other
// fields, and missing fields have no default.
func decodeHead(id string, text []byte) (h head, err error) {
	if err := json.Unmarshal(text, &h); err != nil {
		return h, fmt.Errorf("head: %w", err)
	}
	if h.Version != headVersion {
		return h, fmt.Errorf("head: version is %d, expected %d", h.Version, headVersion)
	}
	if want := string(h.encode()); string(text) != want {
		at := 0
		for at < min(len(text), len(want)) && text[at] == want[at] {
			at++
		}
		return h, fmt.Errorf("head: byte %d: found %.24q, expected %.24q", at, text[at:], want[at:])
	}
	if err := h.check(id); err != nil {
		return h, fmt.Errorf("head: %w", err)
	}
	return h, nil
}

// check returns an error if a field is outside its limits. It skips limits that depend on the
// model.
func (h *head) check(id string) error {
	switch {
	case h.ID != id:
		return fmt.Errorf("id is %.80q, expected %q", h.ID, id)
	case h.Settings.Chunk < 1 || h.Settings.Chunk > ChunkTokensMax:
		return fmt.Errorf("settings.chunk is %d, expected 1 to %d",
			h.Settings.Chunk, ChunkTokensMax)
	case !slices.Contains(stream.AllMethods(), h.Settings.Method):
		return fmt.Errorf("settings.method is %.80q, expected %s",
			h.Settings.Method, strings.Join(stream.AllMethods(), ", "))
	case h.History != HistoryFull && h.History != HistoryTail:
		return fmt.Errorf("history is %.80q, expected %s or %s",
			h.History, HistoryFull, HistoryTail)
	case h.Parent != nil && h.Parent.Offset < 0:
		return fmt.Errorf("parent.offset is %d, expected 0 or more", h.Parent.Offset)
	case h.LinesFrom != nil && *h.LinesFrom < 0:
		return fmt.Errorf("lines_from is %d, expected 0 or more", *h.LinesFrom)
	case slices.ContainsFunc(h.Feedback, Feedback.wrong) || len(h.Feedback) > FeedbackMax:
		return fmt.Errorf("feedback has %d verdicts, expected at most %d, and no invalid one",
			len(h.Feedback), FeedbackMax)
	case h.Records != nil && (h.LinesFrom == nil || h.Records.From < *h.LinesFrom):
		return fmt.Errorf("records.from is %d, expected at least the value of "+
			"lines_from, which must be present", h.Records.From)
	case h.ByLine && h.LinesFrom == nil:
		return errors.New("by_line is true, expected false without lines_from")
	case h.ByLine && !stream.LearnsByLine(h.Settings.Method):
		return fmt.Errorf("by_line is true, expected false with the method %s", h.Settings.Method)
	case h.TroubleWords != "" && h.LinesFrom == nil:
		return errors.New("found the field trouble_words without lines_from, expected both or " +
			"neither")
	case !isTroubleList(h.TroubleWords):
		return fmt.Errorf("trouble_words is %.80q, expected lower-case words separated by single "+
			"spaces",
			h.TroubleWords)
	case len(h.Numerics) == 0:
		return fmt.Errorf("numerics is empty, expected one entry or more")
	}
	for i, n := range h.Numerics {
		if n.From < 0 || i > 0 && n.From <= h.Numerics[i-1].From {
			return fmt.Errorf("numerics[%d].from is %d, expected 0 or more, and more than in the "+
				"previous entry",
				i, n.From)
		}
	}
	if of := h.ShadowOf; of != "" && (of == id || !sessionID.MatchString(of)) {
		return fmt.Errorf("shadow_of is %.80q, expected the id of another session", of)
	}
	if h.Deliveries != nil {
		if err := h.Deliveries.wrong(); err != nil {
			return err
		}
	}
	if h.Records != nil {
		if err := lines.CheckPattern(h.Records.Start); err != nil {
			return fmt.Errorf("records.start is %q, expected %w", h.Records.Start, err)
		}
	}
	return cmp.Or(h.checkKept(), checkNameOrNone(h.Name))
}

// checkOrigin checks the ids and names in an imported head that refer to other servers. Users see
// these texts, and no other function checks them.
func (h *head) checkOrigin() error {
	if h.Parent != nil && !sessionID.MatchString(h.Parent.ID) {
		return fmt.Errorf("head: parent.id is %.80q, expected the id of a session: 1 to 64 "+
			"characters of 0-9 a-z -, beginning with 0-9 or a-z", h.Parent.ID)
	}
	for i, n := range h.Numerics {
		if !numericsName.MatchString(n.Name) {
			return fmt.Errorf("head: numerics[%d].name is %.80q, expected 1 to 64 letters, "+
				"digits, - and +", i, n.Name)
		}
	}
	return nil
}

// These are the patterns of session ids (as in package storage) and of the names of arithmetics.
var (
	sessionID    = regexp.MustCompile(`^[0-9a-z][0-9a-z-]{0,63}$`)
	numericsName = regexp.MustCompile(`^[0-9A-Za-z+-]{1,64}$`)
)

// checkOffsets returns an error if an offset in the head is beyond the end of the text.
func (h *head) checkOffsets(end int64) error {
	from := h.numerics().From
	switch {
	case h.Parent != nil && h.Parent.Offset > end:
		return fmt.Errorf("parent.offset is %d, expected at most %d, the end of the log",
			h.Parent.Offset, end)
	case from > end:
		return fmt.Errorf("numerics[%d].from is %d, expected at most %d, the end of the log",
			len(h.Numerics)-1, from, end)
	case h.LinesFrom != nil && *h.LinesFrom > end:
		return fmt.Errorf("lines_from is %d, expected at most %d, the end of the log",
			*h.LinesFrom, end)
	case h.Records != nil && h.Records.From > end:
		return fmt.Errorf("records.from is %d, expected at most %d, the end of the log",
			h.Records.From, end)
	}
	return nil
}

func (h *head) numerics() numerics { return h.Numerics[len(h.Numerics)-1] }

func (h *head) checkKept() error {
	return checkRequest(CreateRequest{
		Seed: &h.Settings.Seed, Labels: h.Labels, TTL: h.TTL, History: h.History,
	})
}

func (h head) patched(r PatchRequest) head {
	labels := maps.Clone(h.Labels)
	if r.Unlabel {
		labels = nil
	}
	for name, value := range r.Labels {
		if value == nil {
			delete(labels, name)
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[name] = *value
	}
	h.Labels = labels
	if r.Name != nil {
		h.Name = *r.Name
	}
	if r.Detach {
		h.ShadowOf = ""
	}
	if r.TTL != nil {
		h.TTL = *r.TTL
	}
	return h
}
