package watch

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/serving/follow"
)

func lineOf(text string, bits []float32, from, to int64) *client.LineEvent {
	return &client.LineEvent{
		Text: &text, TokenBits: bits, BPC: new(1.), Span: client.LineSpan{From: from, To: to},
		Warm: true,
	}
}

func TestMarkIsPartOfTheText(t *testing.T) {
	for _, c := range []struct {
		from, to int64
		want     string
	}{{4, 7, "two"}, {8, 99, "three"}, {4, 4, ""}, {99, 120, ""}, {-3, 3, "one"}} {
		l := lineOf("one two three", nil, c.from, c.to)
		span, ok := Mark(l)
		require.Equal(t, c.want != "", ok, "%+v", c)
		if ok {
			require.Equal(t, c.want, (*l.Text)[span.From:span.To])
		}
	}
}

func TestReasonNamesTokenAndWhatIsUsual(t *testing.T) {
	for want, why := range map[string]*client.LineWhy{
		"": nil,
		"502 after HTTP; usually 200, 304": {Before: "HTTP", Token: "502", Usual: []string{"200",
			"304"}},
		"DISCOVERY is new":               {Token: "DISCOVERY", Lines: new(int64(0))},
		"DISCOVERY was in 1 line before": {Token: "DISCOVERY", Lines: new(int64(1))},
		"FATAL":                          {Token: "FATAL"},
		"a b; usually twelve-bytes…":     {Token: "a\x1bb", Usual: []string{"twelve-bytes"}},
		"root after for; usually anna":   {Before: "for", Token: "root", Usual: []string{"anna"}},
	} {
		require.Equal(t, want, Reason(why))
	}
}

func TestLineIsShownWithItsMarks(t *testing.T) {
	text := []byte("one two three four")
	marks := []client.LineSpan{{From: 4, To: 7}, {From: 14, To: 18}}
	for _, c := range []struct {
		style Style
		text  []byte
		want  string
	}{
		{Style{}, text, "p> one two three four\n       ^^^       ^^^^\n"},
		{Style{Color: true}, text, "p> one \x1b[1;31mtwo\x1b[0m three \x1b[1;31mfour\x1b[0m\n"},
		{Style{Width: 15}, text, "p> one two thr…\n       ^^^\n"},
		{Style{Width: 21}, text, "p> one two three four\n       ^^^       ^^^^\n"},
		{Style{}, []byte("a\tb\x1b[31m\xff"), "p> a       b\\x1b[31m\\xff\n    ^^^^^^^^^^^^^^^\n"},
		{Style{}, []byte("日本 語"), "p> 日本 語\n     ^^^^^\n"},
	} {
		use := marks
		if string(c.text) != string(text) {
			use = []client.LineSpan{{From: 1, To: 7}}
		}
		if strings.HasPrefix(string(c.text), "日") {
			use = []client.LineSpan{{From: 3, To: 10}}
		}
		require.Equal(t, c.want, c.style.Show("p> ", c.text, use, ""), "%+v", c.style)
	}
	require.Equal(t, "p> one\n", Style{}.Show("p> ", []byte("one"), nil, ""))
	require.Equal(t, "p> one\n   ^^^  why\n",
		Style{}.Show("p> ", []byte("one"), []client.LineSpan{{From: 0, To: 3}}, "why"))
	require.Equal(t, "p> \x1b[1;31mone\x1b[0m\n   \x1b[2mwhy\x1b[0m\n",
		Style{Color: true}.Show("p> ", []byte("one"), []client.LineSpan{{From: 0, To: 3}}, "why"))
}

func TestRowFitsAndHasMark(t *testing.T) {
	text := []byte(strings.Repeat("abc déf 日本 ", 12))
	for width := 12; width < 120; width++ {
		for at := range int64(len(text)) {
			marks := []client.LineSpan{{From: at, To: at + 1}}
			shown := Style{Width: width}.Show("> ", text, marks, "a reason of some length")
			rows := strings.Split(strings.TrimSuffix(shown, "\n"), "\n")
			require.Len(t, rows, 2)
			for _, row := range rows {
				total := 0
				for _, c := range layout([]byte(row), nil) {
					total += c.width
				}
				require.LessOrEqual(t, total, width, shown)
			}
			require.Contains(t, rows[1], "^")
		}
	}
}

func TestRatesAreFractionsOrNumbers(t *testing.T) {
	for text, want := range map[string]float64{"1/1000": 0.001, "0.02": 0.02, " 2 / 50": 0.04,
		"1": 1} {
		p, err := ParseRate(text)
		require.NoError(t, err)
		require.InDelta(t, want, p, 1e-12)
	}
	for _, text := range []string{"", "0", "-1", "1/0", "0/0", "2", "3/2", "NaN", "1/x", "1/2/3",
		"inf"} {
		_, err := ParseRate(text)
		require.ErrorContains(t, err, "expected a probability", text)
	}
}

func TestTopKeepsStrangestInOrder(t *testing.T) {
	top := Top{Size: 3}
	for i, p := range []float64{.5, .1, .9, .1, .01, .2} {
		top.Add(Found{Line: client.LineEvent{Number: int64(i), P: p, Warm: i > 0}})
	}
	var got []int64
	for _, f := range top.Lines() {
		got = append(got, f.Line.Number)
	}
	require.Equal(t, []int64{4, 1, 3}, got)
}

func TestLagSaysHowMuchHowLongAndHowFast(t *testing.T) {
	var l lag
	now := time.Unix(1000, 0)
	var b Behind
	for second := range 40 {
		b = l.look(now.Add(time.Duration(second)*time.Second), int64(100*second), int64(60*second))
	}
	require.EqualValues(t, 39*40, b.Bytes)
	require.InDelta(t, 15, b.Age.Seconds(), 1.01, "the byte 2340 came at 23.4 s")
	require.InDelta(t, 100, b.In, 1)
	require.InDelta(t, 60, b.Out, 1)
	require.Equal(t, "1.5 KiB behind (15s); 100 B/s arrive, 60 B/s are scored", b.String())
	for second := 40; second < 5000; second++ {
		b = l.look(now.Add(time.Duration(second)*time.Second), 4000, int64(min(4000, 60*second)))
		require.LessOrEqual(t, len(l.samples), samplesMax+1)
	}
	require.Zero(t, b.Bytes)
	require.Zero(t, b.Age)
}

func testPosition() *Position {
	mark := follow.Mark{Head: follow.Sample{}, Tail: follow.Sample{}}
	return &Position{
		Version: positionVersion, Session: "s", Path: "/log", Until: 500, Reported: 90,
		Parts: []Part{
			{From: 10, Start: 0, Mark: mark}, {From: 100, Start: 40, Mark: mark},
			{From: 201, Start: 0, Ended: true, Mark: mark},
		},
	}
}

func TestPositionKnowsPlaceOfEachOffset(t *testing.T) {
	p := testPosition()
	require.NoError(t, p.check())
	for offset, want := range map[int64]follow.Place{
		10: {Offset: 0}, 99: {Skip: 89}, 100: {Offset: 40}, 200: {Offset: 40, Skip: 100},
		201: {Offset: 0, Ended: true}, 202: {Skip: 1}, 500: {Skip: 299},
	} {
		place, err := p.place(offset)
		require.NoError(t, err)
		require.Equal(t, want, place, offset)
	}
	_, err := p.place(501)
	require.ErrorContains(t, err, "the session has other text")
	_, err = p.place(9)
	require.ErrorContains(t, err, "an older state")
	require.Equal(t, []follow.Place{{Skip: 90}, {Offset: 40, Skip: 100, Ended: true}},
		p.others(300))
	require.Empty(t, p.others(50))
}

// A session was fed from a log that was then rotated. The log's last line had no newline, so the
// watch added one. Any part of the session's text can be read again from the old and the new file.
func TestTextOfSessionIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	k := keeper{file: filepath.Join(t.TempDir(), "p.json"), position: Position{
		Version: positionVersion, Session: "s", Path: path,
	}}
	require.NoError(t, os.WriteFile(path, []byte("one\ntwo"), 0o600))
	o := follow.Options{Log: follow.Log{Path: path}, Last: -1}
	f := follow.Open(o)
	var sent strings.Builder
	p := f.Peek()
	require.NoError(t, k.announce(p))
	sent.Write(p.Text)
	f.Close()
	require.NoError(t, os.Rename(path, path+".1"))
	require.NoError(t, os.WriteFile(path, []byte("three\r\n\x1b[1mfour\x1b[0m\r\n"), 0o600))
	f, found := follow.Resume(o, k.position.Parts[0].place(int64(sent.Len())))
	require.True(t, found)
	defer f.Close()
	k.number = 0
	deadline := time.Now().Add(20 * time.Second)
	for sent.Len() < 18 && time.Now().Before(deadline) {
		p, err := f.Next(t.Context())
		require.NoError(t, err)
		require.NoError(t, k.announce(p))
		sent.Write(p.Text)
	}
	require.Equal(t, "one\ntwo\nthree\nfour\n", sent.String())
	read, err := readPosition(k.file)
	require.NoError(t, err)
	for from := range sent.Len() {
		for to := from; to <= sent.Len(); to++ {
			text, err := read.text(int64(from), int64(to), o.Read)
			require.NoError(t, err)
			require.Equal(t, sent.String()[from:to], string(text))
		}
	}
}

func TestImpossiblePositionIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Position){
		"version":  func(p *Position) { p.Version = 3 },
		"session":  func(p *Position) { p.Session = "" },
		"parts":    func(p *Position) { p.Parts = nil },
		"until":    func(p *Position) { p.Until = 3 },
		"reported": func(p *Position) { p.Reported = 501 },
		"from":     func(p *Position) { p.Parts[1].From = 10 },
		"start":    func(p *Position) { p.Parts[1].Start = -1 },
		"mark":     func(p *Position) { p.Parts[1].Mark.Head.Hash = "zz" },
	} {
		p := testPosition()
		spoil(p)
		text, err := json.Marshal(p)
		require.NoError(t, err)
		_, err = parsePosition(text)
		require.ErrorContains(t, err, name)
	}
}

func TestPositionOfVersion1ContinuesAtItsPlace(t *testing.T) {
	p := testPosition()
	p.Version = 1
	require.NoError(t, p.check())
	p.upgrade(150)
	require.NoError(t, p.check())
	require.Equal(t, positionVersion, p.Version)
	require.Len(t, p.Parts, 1)
	place, err := p.place(150)
	require.NoError(t, err)
	require.Equal(t, follow.Place{Offset: 90}, place)
}

func TestPositionStaysSmall(t *testing.T) {
	k := keeper{file: filepath.Join(t.TempDir(), "p.json"), position: Position{
		Version: positionVersion, Session: "s", Path: "/log",
	}}
	text := make([]byte, 10<<10)
	// Each piece takes 2*len(text) bytes of the file, and half of these bytes were removed before
	// sending.
	for i := range int64(100) {
		at := i * 2 * int64(len(text))
		require.NoError(t, k.announce(follow.Piece{
			Text: text, File: 1, From: at, To: at + 2*int64(len(text)),
		}))
	}
	parts := k.position.Parts
	require.Len(t, parts, 1+knownMax)
	require.Zero(t, parts[0].From)
	for _, part := range parts {
		require.Equal(t, 2*part.From, part.Start)
	}
	require.Greater(t, parts[knownMax].From, k.next-2*aheadBytes)
}

// If the watch cannot write its position to the file, it must not send the text. The user must get
// exactly one message.
func TestTextWaitsForItsPosition(t *testing.T) {
	cl, err := client.New("http://127.0.0.1:1")
	require.NoError(t, err)
	dir := t.TempDir()
	// a file where a folder is expected
	require.NoError(t, os.WriteFile(filepath.Join(dir, "watch"), nil, 0o600))
	var said []string
	ctx, cancel := context.WithTimeout(t.Context(), 2*reportEvery+reportEvery/2)
	defer cancel()
	f := &feeding{
		Watcher: &Watcher{Client: cl, Note: func(text string) { said = append(said, text) }},
		keeper:  &keeper{file: filepath.Join(dir, "watch", "p.json")},
	}
	err = f.piece(ctx, follow.Piece{Text: []byte("a\n"), File: 1, To: 2})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Len(t, said, 1)
	require.Contains(t, said[0], "; trying again")
	require.Zero(t, f.sent)
}

func FuzzPosition(f *testing.F) {
	text, err := json.Marshal(testPosition())
	require.NoError(f, err)
	f.Add(text, int64(150))
	f.Fuzz(func(t *testing.T, text []byte, offset int64) {
		p, err := parsePosition(text)
		if err != nil {
			return
		}
		if place, err := p.place(offset); err == nil {
			require.GreaterOrEqual(t, min(place.Offset, place.Skip), int64(0))
		}
		for _, place := range p.others(offset) {
			require.GreaterOrEqual(t, min(place.Offset, place.Skip), int64(0))
		}
	})
}

func TestBlankLinesNeverStandOut(t *testing.T) {
	var top Top
	top.Size = 9
	for text, stands := range map[string]bool{"": false, "\r": false, " \t": false, "x": true} {
		l := lineOf(text, nil, 0, 0)
		l.P = 1e-6
		require.Equal(t, stands, StandsOut(l, 1e-3), "%q", text)
		top.Add(Found{Line: *l})
	}
	require.Len(t, top.Lines(), 1)
	cut := lineOf("   ", nil, 0, 0)
	cut.Cut = new(true)
	require.True(t, StandsOut(cut, 1e-3), "nobody knows the rest of the line")
	require.True(t, StandsOut(&client.LineEvent{Warm: true}, 1e-3), "the text was left out")
}

// A file that does not grow is read. When text of the file moves from unread to sent, this text
// must not count as newly arrived.
func TestReadTextIsNotReportedAsArriving(t *testing.T) {
	cl, err := client.New("http://127.0.0.1:1")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var told []Behind
	unread := int64(60)
	f := &feeding{
		Watcher: &Watcher{
			Client: cl, Score: client.ScoreOptions{Learn: client.LearnFalse},
			Behind: func(b Behind) { told = append(told, b) },
		},
		unread: func() int64 { return unread },
	}
	require.Error(t, f.feed(ctx, make([]byte, 40)), "of 100 bytes")
	require.Len(t, told, 1)
	require.EqualValues(t, 100, told[0].Bytes)
}

// The time that a program takes to complete a line is not a delay of watch.
func TestBeginningOfLineIsNotBehind(t *testing.T) {
	var told []Behind
	f := &feeding{
		Watcher: &Watcher{Behind: func(b Behind) { told = append(told, b) }},
		unread:  func() int64 { return 5 },
	}
	f.look(true)
	_, err := await(t.Context(), f, func(context.Context) (string, error) {
		time.Sleep(lookEvery + 10*time.Millisecond)
		return "a line\n", nil
	})
	require.NoError(t, err)
	f.look(true)
	require.Len(t, told, 2)
	require.Zero(t, told[1].Age)
}

// A source whose text the server does not take is not silent.
func TestSourceThatWaitsForTheServerIsTold(t *testing.T) {
	cl, err := client.New("http://127.0.0.1:1")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var told []string
	f := &feeding{name: "app.log", Watcher: &Watcher{
		Client: cl, Note: func(string) {}, Behind: func(Behind) {},
		Waiting: func(source string) {
			if told = append(told, source); len(told) == 2 {
				cancel()
			}
		},
	}, unread: func() int64 { return 0 }}
	f.feeder = cl.NewFeeder("s", f.options())
	require.Error(t, f.feed(ctx, []byte("a line\n")))
	require.Equal(t, []string{"app.log", "app.log"}, told)
}
