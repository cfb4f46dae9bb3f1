package server

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	webpage "github.com/lmserve/lmserve/server/page"
)

func TestKeylessClientGetsPage(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "alice"})
	g := newRig(t, Options{Keys: ring.Ring, Version: "v1.2.3"})
	document := g.do("GET", "/", nil)
	text, err := io.ReadAll(document.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), `<meta name="version" content="v1.2.3">`)
	for path, want := range map[string]string{"/": "<!doctype html>", "/page.css": "/*",
		"/page.js": "/*"} {
		resp := g.do("GET", path, nil)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, webpage.Policy, resp.Header.Get("Content-Security-Policy"))
		raw, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(raw), want))
		again := g.do("GET", path, nil, "If-None-Match", resp.Header.Get("ETag"))
		require.Equal(t, http.StatusNotModified, again.StatusCode)
	}
}

// read enters a text into the page and waits for the scores of the text.
func (b *tab) read(text string) {
	b.t.Helper()
	b.until(`document.querySelector(".composer textarea") !== null`)
	b.run(
		chromedp.Focus(".composer textarea"),
		chromedp.SetValue(".composer textarea", text),
	)
	value[bool](b, `document.querySelector(".composer textarea")
		.dispatchEvent(new Event("input", {bubbles: true}))`)
	b.press("\t") // Tab moves the focus to the button.
	b.press(kb.Enter)
	b.untilRead(len(text))
}

// untilRead waits until the page has scores for size bytes.
func (b *tab) untilRead(size int) {
	b.t.Helper()
	b.until(`[...document.querySelectorAll(".totals span")].some((e) =>
		e.textContent.replaceAll("\u202f", "") === "` + strconv.Itoa(size) + ` bytes") &&
		!document.querySelector(".map .wait")`)
}

func TestPageAtTheStart(t *testing.T) {
	b := newTab(t)
	require.Equal(t, "See what the model did not expect",
		value[string](b, `document.querySelector("h1").innerText`))
	require.False(t, value[bool](b, `document.querySelector(".choose-model") !== null`),
		"there is one model")
	b.checkLooks("start")
}

func TestPageOfTheContractFitsEveryScreen(t *testing.T) {
	b := newTab(t)
	b.run(chromedp.Navigate(b.url + "/docs"))
	b.until(`document.querySelector("main") !== null`)
	b.checkLooks("docs")
}

func TestPageBeginsWithTheModelThatIsChosen(t *testing.T) {
	path := wantedBrowser(t)
	words, err := modeltest.SmallOfWords()
	require.NoError(t, err)
	from, _, err := model.NewSource(func() (*model.Model,
		error) {
		return model.FromFile(words.File())
	})
	require.NoError(t, err)
	b := newTabOn(newRealRig(t, session.Options{Threads: 2, Others: []*model.Source{from}},
		Options{}), path)
	opened := func() api.Session {
		t.Helper()
		b.until(`location.hash.split("/")[2] > ""`)
		return b.get(value[string](b, `"/v1/sessions/" + location.hash.split("/")[2]`))
	}
	choice := `document.querySelector(".choose-model select")`
	b.until(choice + `?.options.length === 2`)
	models := b.mg.Models()
	b.checkLooks("start-models")
	b.read("the cat sat\n")
	require.Equal(t, models[0].ID, opened().Model)

	b.open("#/read")
	b.until(choice + ` !== null`)
	value[bool](b, choice+`.value = "`+models[1].ID+`",
		`+choice+`.dispatchEvent(new Event("change", {bubbles: true}))`)
	b.until(`document.querySelector(".choose-model .note").innerText.startsWith("reads words; ")`)
	b.read("the dog sat on the mat .\n")
	require.Equal(t, models[1].ID, opened().Model)

	b.open("#/write")
	b.until(choice + `?.value === "` + models[1].ID + `"`)
	b.checkLooks("write-models")
	b.click("Start a text")
	require.Equal(t, models[1].ID, opened().Model)
}

func TestPageShowsTextAndNeverInterpretsIt(t *testing.T) {
	b := newTab(t)
	b.read("<img src=x onerror=alert(1)>\n<script>alert(1)</script>\n\a\u202ebidi\u00a0\n")
	require.Zero(t, value[int](b, `document.querySelectorAll(".map img, .map script").length`))
	shown := value[string](b, `document.querySelector(".map").textContent`)
	for _, want := range []string{"<img src=x onerror=alert(1)>↵", "<script>", "^G", "U+202E"} {
		require.Contains(t, shown, want)
	}
	b.checkLooks("read")
}

func TestPageReadsWithTheKeyboardAlone(t *testing.T) {
	b := newTab(t)
	text := numbered(1, 700) + "something else\n"
	b.read(text)
	focus := func(selector string) {
		t.Helper()
		for range 40 {
			if value[bool](b, `document.activeElement.matches("`+selector+`")`) {
				return
			}
			b.press("\t")
		}
		t.Fatalf("the tab key does not lead to %s", selector)
	}
	offset := func() string {
		return value[string](b,
			`document.querySelector(".inspector .note").innerText`)
	}
	focus(".map")
	b.press(kb.ArrowRight)
	b.until(`document.querySelector(".map .caret") !== null`)
	require.Contains(t, offset(), "offset 1,")
	b.press(kb.ArrowDown, kb.ArrowRight, kb.Home)
	b.until(`document.querySelector(".inspector .note").innerText.startsWith("offset 22")`)
	require.NotEmpty(t, value[string](b, `document.querySelector("[aria-live=polite]").innerText`))
	require.NotZero(t, value[int](b, `document.querySelectorAll(".expected tbody tr").length`))
	before := offset()
	b.press("n")
	b.until(`document.querySelector(".inspector .note").innerText !== "` + before + `"`)
	b.click("Lines")
	b.until(`document.querySelectorAll(".strangest tbody tr").length > 5`)
	b.checkLooks("lines")
	focus(".strangest .line")
	b.press(kb.Enter)
	b.until(`document.querySelector(".map .caret") !== null`)
	b.click("Difference")
	b.until(
		`document.querySelector(".map [class*=gain], .map [class*=loss], .map .heat0") !== null`)
	b.checkLooks("read-difference")
}

func (b *tab) chooseFile(name string, content []byte) {
	b.t.Helper()
	b.until(`document.querySelector("input[type=file]") !== null`)
	value[bool](b, fmt.Sprintf(`(() => {
		const files = new DataTransfer();
		files.items.add(new File([Uint8Array.from(atob(%q), (c) => c.charCodeAt(0))], %q));
		const input = document.querySelector("input[type=file]");
		input.files = files.files;
		return input.dispatchEvent(new Event("change", {bubbles: true}));
	})()`, base64.StdEncoding.EncodeToString(content), name))
}

// The page shows each invalid UTF-8 byte in hexadecimal, and sends the file's bytes unchanged.
func TestPageReadsBytesThatAreNoText(t *testing.T) {
	b := newTab(t)
	content := []byte("a\xff\xfe\x80 \xc3\xa9\xe2\x82\r\n\x00z\n")
	b.chooseFile("bytes.bin", content)
	b.untilRead(len(content))
	require.Equal(t, []string{"ff", "fe", "80", "e2", "82"}, value[[]string](b,
		`[...document.querySelectorAll(".map .raw")].map((e) => e.textContent)`))
	require.Contains(t, value[string](b, `document.querySelector(".map").textContent`), "é")
	path := value[string](b, `"/v1/sessions/" + location.hash.split("/")[2]`)
	require.Equal(t, string(content), b.sessionText(path))
	b.run(chromedp.Focus(".map"))
	b.press(kb.ArrowRight)
	b.until(`document.querySelector(".inspector .note")?.innerText === "offset 1, byte 0xff"`)
	require.Equal(t, `\xff`,
		value[string](b, `document.querySelector(".inspector .glyph").innerText`))
	b.checkLooks("read-bytes")
}

func TestPageReadsWithAModelOfWords(t *testing.T) {
	b := newTabOfWords(t)
	text := strings.Repeat("the cat sat on the mat .\n", 40)
	b.read(text)
	b.run(chromedp.Focus(".map"))
	b.press(kb.ArrowRight, kb.ArrowRight)
	b.until(`document.querySelector(".inspector .glyph")?.innerText.includes("sat")`)
	require.Contains(t, value[string](b, `document.querySelector(".inspector .note").innerText`),
		"offset ")
	require.Regexp(t, `(?s)(the|cat|mat)`,
		value[string](b, `document.querySelector(".expected").innerText`))
	require.Contains(t, value[string](b, `document.querySelector(".legend").innerText`),
		"bits per word")
	b.click("Lines")
	b.until(`document.querySelectorAll(".strangest tbody tr").length > 30`)
	b.checkLooks("read-words")
	value[bool](b, `(location.hash = location.hash.replace("read", "learn"), true)`)
	b.until(
		`document.querySelector(".sums .adapted dt")?.innerText === "Adapted with companion, ` +
			`bits per word"`)
	value[bool](b, `(location.hash = location.hash.replace("learn", "write"), true)`)
	b.until(`document.querySelector(".sheet textarea")?.value.endsWith("the mat .\n")`)
	b.click("Continue")
	b.until(`document.querySelector(".card.static footer, .card.adapted footer") !== null`)
}

// Of past text, the server keeps the scores of pieces, not of words.
func TestPageMovesByPiecesOfPastWords(t *testing.T) {
	b := newTabOfWords(t)
	path := b.create(withBaseline)
	line := "the cat sat on the mat .\n"
	b.score(path, strings.Repeat(line, 800)) // too long for scores of each word
	b.open(place("read", path))
	b.until(`document.querySelector(".coarse button") !== null`)
	b.run(chromedp.Focus(".map"))
	b.press(kb.ArrowRight, kb.ArrowRight)
	note := `document.querySelector(".inspector .note")?.innerText`
	offset := `Number(/^offset (\d+)$/.exec(` + note + `)?.[1])`
	b.until(offset + ` > 0`)
	require.Less(t, value[int](b, offset), 20*len(line))
}

func TestPageReadsWhatIsDroppedAndForksWhereOneClicks(t *testing.T) {
	b := newTab(t)
	b.until(`document.querySelector(".composer") !== null`)
	text := numbered(1, 400)
	value[bool](b, fmt.Sprintf(`(() => {
		const dataTransfer = new DataTransfer();
		dataTransfer.items.add(new File([%q], "dropped.txt"));
		document.querySelector(".composer").dispatchEvent(
			new DragEvent("drop", {dataTransfer, bubbles: true, cancelable: true}));
		return true;
	})()`, text))
	b.untilRead(len(text))
	before := value[string](b, `location.hash`)
	at := value[[]float64](b, `(() => {
		const letters = document.querySelectorAll(".map .row")[1].firstElementChild.firstChild;
		const range = document.createRange();
		range.setStart(letters, 0);
		range.setEnd(letters, 1);
		const {x, y, width, height} = range.getBoundingClientRect();
		return [x + width / 2, y + height / 2];
	})()`)
	b.run(chromedp.MouseClickXY(at[0], at[1]))
	b.until(`document.querySelector(".map .caret") !== null`)
	line := strings.Index(text, "\n") + 1
	b.until(fmt.Sprintf(
		`document.querySelector(".inspector .note")?.innerText.startsWith("offset %d,")`, line))
	b.click("Fork here")
	b.until(`location.hash !== "` + before + `"`)
	b.untilRead(line)
	path := value[string](b, `"/v1/sessions/" + location.hash.split("/")[2]`)
	require.Equal(t, text[:line], b.sessionText(path))
	require.Equal(t, "dropped.txt, from "+strconv.Itoa(line), (*b.get(path).Labels)["title"])
}

func TestPageShowsTheWholeKeyToItsColours(t *testing.T) {
	b := newTab(t)
	b.read(numbered(1, 300))
	b.look(360, 740, false)
	for _, mode := range []string{"Adaptive", "Difference"} {
		b.click(mode)
		require.Empty(t, value[[]string](b, `[...document.querySelectorAll(".legend li")]
			.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.innerText)`), mode)
	}
}

func TestPageTakesAddressesThatNameNothing(t *testing.T) {
	b := newTab(t)
	for _, hash := range []string{"#/read/%", "#/learn/nothing-like-that"} {
		b.open(hash)
		b.until(`document.querySelector(".problem h2")?.innerText === "The session does not exist"`)
	}
	b.checkLooks("problem")
}

func TestPageWatchesASessionThatSomethingElseFeeds(t *testing.T) {
	b := newTab(t)
	path := b.create(`{"settings":{"baseline":true}}`)
	require.Equal(t, http.StatusOK, b.text(path+"/score", numbered(1, 300)).StatusCode)
	b.open("#/read/" + strings.TrimPrefix(path, "/v1/sessions/"))
	b.untilRead(300)
	b.until(`document.querySelector(".totals .doing").textContent === "Watching…"`)
	require.Equal(t, http.StatusOK, b.text(path+"/score", "and more\n").StatusCode)
	b.untilRead(309)
	b.until(`document.querySelector(".map").textContent.endsWith("and more↵")`)
}

func (b *tab) giveKey(key string) {
	b.t.Helper()
	b.run(chromedp.SetValue("#key-input", key))
	b.press(kb.Enter)
}

func TestPageAsksForAKey(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "alice"})
	b := newTabOf(t, Options{Keys: ring.Ring})
	b.until(`document.querySelector("dialog[open]") !== null`)
	b.checkLooks("key")
	b.giveKey("lms_wrong")
	b.until(`document.querySelector("dialog .warning") !== null`)
	b.giveKey(ring.token["alice"])
	b.until(`document.querySelector("dialog[open]") === null`)
	b.read("hello\n")
	require.Equal(t, ring.token["alice"], value[string](b, `sessionStorage.getItem("lmserve.key")`))
	require.NotContains(t, value[string](b, `JSON.stringify({...localStorage})`),
		ring.token["alice"])
}

func TestPageReportsWrongKeyForSession(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "alice"})
	b := newTabOf(t, Options{Keys: ring.Ring})
	b.open("#/read/some-session")
	b.until(`document.querySelector("dialog[open]") !== null`)
	b.giveKey("lms_wrong")
	b.until(`document.querySelector("dialog .warning") !== null`)
	b.giveKey(ring.token["alice"])
	b.until(`document.querySelector("dialog[open]") === null`)
	b.until(`document.querySelector(".problem h2")?.innerText === "The session does not exist"`)
}

func TestPageStopsAskingForAKeyThatNothingNeeds(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "alice"})
	b := newTabOf(t, Options{Keys: ring.Ring})
	b.open("#/learn/some-session")
	b.until(`document.querySelector("dialog[open]") !== null`)
	value[bool](b, `(location.hash = "#/learn", true)`)
	b.until(`document.querySelector("dialog[open]") === null`)
	b.until(`document.querySelector("h1")?.innerText === "Watch a model learn"`)
}

// A long text scrolls smoothly, because the page's DOM contains only the visible part of the text.
func TestPageHasALongTextOnlyWhereItIsSeen(t *testing.T) {
	const size = 10 << 20
	b := newTab(t)
	b.until(`document.querySelector("input[type=file]") !== null`)
	value[bool](b, `(() => {
		const line = (i) => i + ": a line of a long text, and so it goes on and on\n";
		let text = "";
		for (let i = 0; text.length < `+strconv.Itoa(size)+`; i++) text += line(i);
		const files = new DataTransfer();
		files.items.add(new File([text], "long.txt"));
		const input = document.querySelector("input[type=file]");
		input.files = files.files;
		return input.dispatchEvent(new Event("change", {bubbles: true}));
	})()`)
	b.until(`document.querySelector(".map .heat0, .map [class*=heat]") !== null`)
	b.click("Pause")
	b.until(`document.querySelector(".toolbar .primary")?.textContent === "Continue"`)
	// frames returns a median frame time in milliseconds. The test compares scrolling to uncached
	// rows with repainting visible rows, so that the machine's speed and load cancel out.
	frames := func(change string) float64 {
		return value[float64](b, `(async () => {
			const map = document.querySelector(".map");
			const frame = () => new Promise(requestAnimationFrame);
			const times = [];
			for (let i = 0; i < 60; i++) {
				const began = performance.now();
				`+change+`;
				await frame();
				await frame();
				times.push((performance.now() - began) / 2);
			}
			return times.sort((a, b) => a - b)[30];
		})()`)
	}
	still := frames(`map.style.opacity = i % 2 ? "1" : "0.99"`)
	moving := frames(`map.scrollTop = (i % 2 ? i : 59 - i) * 100000`)
	t.Logf("a frame takes %.1f ms, and %.1f ms while it scrolls", still, moving)
	require.Less(t, moving, 3*still+16)
	require.Less(t, value[int](b, `document.querySelectorAll(".map *").length`), 5000)
	b.run(chromedp.Focus(".map"))
	b.run(chromedp.KeyEvent(kb.End, chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.until(`document.querySelector(".map .caret")?.textContent === "↵"`)
	last := value[string](b, `[...document.querySelectorAll(".map .row")]
		.map((r) => Number(r.textContent.split(":")[0])).sort((a, b) => a - b).at(-1).toString()`)
	require.Greater(t, len(last), 5)
}
