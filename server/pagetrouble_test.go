package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
)

// opened returns the path of the session in the page's address.
func (b *tab) opened() string {
	b.t.Helper()
	return value[string](b, `"/v1/sessions/" + location.hash.split("/")[2]`)
}

// refuse makes the page's next requests whose URLs match a regular expression fail with a problem.
func (b *tab) refuse(pattern string, times int) {
	b.t.Helper()
	value[bool](b, fmt.Sprintf(`(() => {
		const {fetch} = window;
		let left = %d;
		window.fetch = (url, ...how) => {
			if (left === 0 || !/%s/.test(url)) return fetch(url, ...how);
			left--;
			return Promise.resolve(new Response(JSON.stringify({
				type: "urn:lmserve:problem:overloaded", title: "The server is overloaded",
				status: 503,
			}), {status: 503}));
		};
		return true;
	})()`, times, pattern))
}

// untilText waits until a session has the given text.
func (b *tab) untilText(path, text string) {
	b.t.Helper()
	last := ""
	for range 300 {
		if last = b.sessionText(path); last == text {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	require.Equal(b.t, text, last)
}

func (b *tab) add(text string) {
	b.t.Helper()
	b.click("Add text")
	b.until(`document.querySelector(".composer textarea") !== null`)
	b.fill(".composer textarea", text)
	b.run(chromedp.Focus(".composer textarea"))
	b.with(chromedp.ModifierCtrl, kb.Enter)
}

// A title is a part of a text. It must not end with half of a character of two UTF-16 units.
func TestPageReadsTextWithCharacterAtEndOfTitle(t *testing.T) {
	b := newTab(t)
	text := strings.Repeat("a", 59) + "😀 and more\n"
	b.until(`document.querySelector(".composer textarea") !== null`)
	b.fill(".composer textarea", text)
	b.run(chromedp.Focus(".composer textarea"))
	b.with(chromedp.ModifierCtrl, kb.Enter)
	b.untilRead(len(text))
	require.Equal(t, strings.Repeat("a", 59)+"😀", (*b.get(b.opened()).Labels)["title"])
}

// An address may have a session's name. A change of the view does not cancel the sending of a text.
func TestPageFeedsNamedSessionInEveryView(t *testing.T) {
	b := newTab(t)
	require.Equal(t, http.StatusCreated, b.send("PUT", "/v1/sessions/web-1", ofCounts).StatusCode)
	b.open("#/read/web-1")
	b.until(`document.querySelector(".totals .doing")?.textContent === "Watching…"`)
	b.slow(`\/score\?.*offset=`, 1000)
	b.add("one line\n")
	b.until(`window.slowed > 0`)
	value[bool](b, `(location.hash = "#/learn/web-1", true)`)
	b.untilText("/v1/sessions/web-1", "one line\n")
	b.until(`document.querySelector(".learn") !== null`)
}

// The server lists sessions by age, in pages. The page knows also the newest of many sessions.
func TestPageKnowsNewestOfManySessions(t *testing.T) {
	b := newTab(t)
	for range 200 {
		b.create(ofCounts)
	}
	b.create(`{"labels":{"title":"newest"}}`)
	first := `document.querySelector(".recent li a")?.innerText`
	b.run(chromedp.Reload())
	b.until(first + ` !== undefined`)
	require.Equal(t, "newest", value[string](b, first))
	b.open("#/incidents")
	b.until(`document.querySelector("h1")?.innerText === "Incidents" && ` + first +
		` !== undefined`)
	require.Equal(t, "newest", value[string](b, first))
}

// A session that the page has created is listed once, also after the page of the list that has it.
func TestPageListsCreatedSessionOnce(t *testing.T) {
	b := newTab(t)
	for range 201 {
		b.create(ofCounts)
	}
	b.open("#/sessions")
	b.until(`document.querySelectorAll("table.sessions tbody tr").length === 50`)
	b.click("New session…")
	b.fill("dialog input:not([type])", "fresh")
	b.click("Create")
	b.until(`document.querySelector(".details h2")?.innerText === "fresh"`)
	b.fill(".find input", "fresh")
	rows := `document.querySelectorAll("table.sessions tbody tr").length`
	b.until(rows + ` === 1`)
	b.click("Show more")
	b.until(`!document.querySelector(".foot").innerText.includes("searched")`)
	require.Equal(t, 1, value[int](b, rows))
}

// Browsers close a dialog at repeated Escape keys. The page still needs the key.
func TestPageAsksForKeyAfterEscape(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "alice"})
	b := newTabOf(t, Options{Keys: ring.Ring})
	b.until(`document.querySelector("dialog[open]") !== null`)
	b.run(chromedp.Focus("#key-input"))
	b.press(kb.Escape, kb.Escape, kb.Escape)
	time.Sleep(200 * time.Millisecond)
	require.True(t, value[bool](b, `document.querySelector("dialog[open]") !== null`))
}

func TestPageWorksIfBrowserForbidsStorage(t *testing.T) {
	b := newTab(t)
	forbids := cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: `for (const name of ["localStorage", "sessionStorage"]) {
			Object.defineProperty(window, name, {get() {
				throw new DOMException("denied", "SecurityError");
			}});
		}`,
	}
	b.run(command(cdppage.AddScriptToEvaluateOnNewDocument, forbids), chromedp.Reload())
	b.read("hello\n")
	b.open("#/write")
	b.click("◐")
	b.until(`document.documentElement.dataset.theme !== "auto"`)
}

func TestPageWritesAfterLinesOfWindows(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, "one\r\ntwo\r\n")
	b.open(place("write", path))
	b.until(`document.querySelector(".sheet textarea")?.value > ""`)
	require.Equal(t, "one\ntwo\n",
		value[string](b, `document.querySelector(".sheet textarea").value`))
}

// A verdict that the server has not stored is not shown.
func TestPageReportsRefusedVerdict(t *testing.T) {
	b := newTab(t)
	path := b.create(ofCounts)
	b.text(path+"/score?unit=line", requestLog(0, 400)+lostLine)
	b.open(place("incidents", path))
	b.until(`document.querySelector(".incident") !== null`)
	b.refuse(`\/feedback$`, 1)
	b.press("j", "m")
	b.until(`document.querySelector(".problem h2")?.innerText === "The server is overloaded"`)
	require.False(t, value[bool](b, `document.querySelector(".incident em.matters") !== null`))
	b.press("m")
	b.until(`document.querySelector(".incident em.matters") !== null &&
		document.querySelector(".problem") === null`)
}

// The search for incidents does not move a user who has opened another view.
func TestPageSearchesIncidentsInBackground(t *testing.T) {
	b := newTab(t)
	path := b.create(`{"labels":{"title":"fed"}}`)
	text := requestLog(0, 100)
	b.text(path+"/score", text)
	b.open(place("incidents", path))
	b.slow(`\/score\?`, 1000)
	b.click("Find incidents")
	b.until(`window.slowed > 0`)
	value[bool](b, `(location.hash = "#/sessions", true)`)
	b.until(fmt.Sprintf(`fetch("v1/sessions").then((r) => r.json()).then((all) =>
		all.sessions.some((s) => s.settings.method === "counts" && s.offset === %d))`, len(text)))
	time.Sleep(500 * time.Millisecond)
	require.Equal(t, "#/sessions", value[string](b, `location.hash`))
}

// A session may keep only the end of its text. The page shows what is kept.
func TestPageShowsSessionWithTrimmedText(t *testing.T) {
	path := wantedBrowser(t)
	o := withCounts(t)
	o.ReplayMax = 500
	b := newTabOn(newRealRig(t, o, Options{}), path)
	tail := b.create(`{"history":"tail","labels":{"title":"fed"}}`)
	id := strings.TrimPrefix(tail, "/v1/sessions/")
	b.create(fmt.Sprintf(
		`{"shadow_of":%q,"history":"tail","settings":{"method":"static"}}`, id))
	b.score(tail, numbered(1, 1000))
	b.score(tail, numbered(2, 1000))
	requireProblem(t, b.do("GET", tail+"/text", nil), api.ProblemHistoryTrimmed)
	b.open(place("learn", tail))
	b.until(`[...document.querySelectorAll(".lines-key li")].some((line) =>
		line.innerText.startsWith("shadow static"))`)
	b.open(place("incidents", tail))
	b.click("Find incidents")
	b.until(`document.querySelector("select")?.selectedOptions[0].innerText === "fed, its lines"`)
}

// One request for scores returns those of at most 16 MiB.
func TestPageShowsShadowsOfLongSession(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, numbered(1, 1600))
	id := strings.TrimPrefix(path, "/v1/sessions/")
	shadow := b.create(fmt.Sprintf(`{"shadow_of":%q,"settings":{"method":"static"}}`, id))
	value[bool](b, fmt.Sprintf(`(() => { // the shadow seems to be longer
		const {fetch} = window;
		const beyond = {offset: 40e6, end: 40e6, scores: []};
		window.fetch = async (url, ...how) => {
			const [, part] = ("/" + url).split(%q);
			if (part?.startsWith("/text")) return new Response("");
			if (part?.startsWith("/scores") && !part.includes("offset=0&")) {
				return new Response(JSON.stringify(beyond));
			}
			const answer = await fetch(url, ...how);
			if (part !== "") return answer;
			return new Response(JSON.stringify({...await answer.json(), offset: 40e6}));
		};
		return true;
	})()`, shadow))
	b.open(place("learn", path))
	b.until(`document.querySelector(".sums .shadow1 dt")?.innerText.startsWith("Shadow static")`)
}

// addAfterOther adds text that reaches the server after another client's text.
func (b *tab) addAfterOther(path, other string) {
	b.t.Helper()
	b.score(path, "start\n")
	b.open(place("read", path))
	b.until(`document.querySelector(".totals .doing")?.textContent === "Watching…"`)
	b.slow(`\/score\?.*offset=`, 2000)
	b.add("mine and more\n")
	b.until(`window.slowed > 0`)
	b.score(path, other)
}

// A failed attempt to send refused text again does not change which part of the text is sent.
func TestPageSendsWholeTextAfterFailedAttempt(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.addAfterOther(path, "mine too\n")
	again := `[...document.querySelectorAll("button")].some((e) => e.innerText === "Try again")`
	b.until(again)
	value[bool](b, fmt.Sprintf(`(() => {
		const {fetch} = window;
		window.fetch = async (url, ...how) => {
			if (!("/" + url).endsWith(%q)) return fetch(url, ...how);
			window.fetch = fetch;
			window.failed = true;
			throw new TypeError("no network");
		};
		return true;
	})()`, path))
	b.click("Try again")
	b.until(`window.failed && ` + again)
	b.click("Try again")
	b.untilText(path, "start\nmine too\nmine and more\n")
}

// A busy session gets the whole text later, even if the other client's text begins like this text.
func TestPageSendsWholeTextAfterBusySession(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.open(place("read", path))
	b.untilWatches("")
	body, text := io.Pipe()
	feed := func(s string) {
		_, err := io.WriteString(text, s)
		require.NoError(t, err)
	}
	go feed("start\n")
	other := b.do("POST", path+"/score", body, "Content-Type", "text/plain",
		"Accept", contract.MediaNDJSON)
	b.add("mine and more\n")
	b.until(`document.querySelector(".problem h2")?.innerText ===
		"Another request is feeding the session"`)
	feed("mine too\n")
	require.NoError(t, text.Close())
	readEvents(other).all(t)
	b.click("Try again")
	b.untilText(path, "start\nmine too\nmine and more\n")
}

// If another client feeds the session first, the page sends the whole text after that text.
func TestPageSendsWholeTextAfterAnotherClient(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.addAfterOther(path, "theirs\n")
	b.click("Try again")
	b.untilText(path, "start\ntheirs\nmine and more\n")
	b.until(`document.querySelector(".map")?.textContent === "start↵theirs↵mine and more↵"`)
}

// A user who has gone to the start page stays there while the text is sent after another text.
func TestPageStaysAtStartAfterAnotherClient(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.addAfterOther(path, "theirs\n")
	b.slow(strings.ReplaceAll(path[1:], "/", `\/`)+"$", 1000)
	b.click("Try again")
	b.until(`window.slowed > 0`)
	value[bool](b, `(location.hash = "#/read", true)`)
	b.untilText(path, "start\ntheirs\nmine and more\n")
	time.Sleep(200 * time.Millisecond) // time to show the session
	b.until(`document.querySelector(".start") !== null`)
	require.Equal(t, "#/read", value[string](b, `location.hash`))
}

func TestPageOpensSessionAtSecondAttempt(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, "some text\n")
	b.refuse(`\/text\?`, 1)
	b.open(place("read", path))
	b.click("Try again")
	b.until(`document.querySelector(".map")?.textContent === "some text↵"`)
}

// A file may be a folder, or removed before the page reads it.
func TestPageReportsUnreadableFile(t *testing.T) {
	b := newTab(t)
	value[bool](b, `(Blob.prototype.arrayBuffer = () =>
		Promise.reject(new DOMException("it is gone", "NotFoundError")), true)`)
	b.chooseFile("gone.log", []byte("text\n"))
	b.until(`document.querySelector(".problem h2")?.innerText === "The file cannot be read"`)
	require.Contains(t, value[string](b, `document.querySelector(".problem").innerText`),
		"gone.log: it is gone")
	b.until(`fetch("v1/sessions").then((r) => r.json()).then((all) => all.sessions.length === 0)`)
}

func TestPageFetchesPastScoresAtSecondAttempt(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, strings.Repeat("some text\n", 2000)) // too long for scores of each token
	b.refuse(`\/scores\?`, 1)
	b.open(place("read", path))
	b.click("Adaptive")
	b.until(`document.querySelector(".map .wait") !== null`)
	b.click("Try again")
	b.until(`document.querySelector(".map .row") !== null && !document.querySelector(".map .wait")`)
	b.until(`document.querySelector(".totals .doing").textContent === "Watching…"`)
}

// Text that is added while the past is fetched does not end the fetching.
func TestPageFetchesPastScoresBeforeNewText(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, strings.Repeat("some text\n", 2000))
	b.slow(`\/scores\?`, 2000)
	b.open(place("write", path))
	b.until(`window.slowed > 0 && document.querySelector(".sheet textarea")?.value > ""`)
	b.commit("new\n")
	b.untilText(path, strings.Repeat("some text\n", 2000)+"new\n")
	value[bool](b, `(location.hash = location.hash.replace("write", "read"), true)`)
	b.click("Adaptive")
	b.until(`document.querySelector(".map .row") !== null`)
	b.run(chromedp.Focus(".map"))
	b.with(chromedp.ModifierCtrl, kb.Home)
	b.until(`document.querySelector(".map .caret") !== null &&
		!document.querySelector(".map .wait")`)
}

// A fork and an imported session have text from the beginning.
func TestPageShowsTextOfFork(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, "some text\n")
	b.open(place("sessions", path))
	b.click("Fork at any byte")
	b.click("Fork at the end")
	b.until(`document.querySelector(".details h2")?.innerText.startsWith("Fork at byte")`)
	b.click("Fork at any byte")
	b.until(`document.querySelector(".travelled")?.innerText === "some text\n"`)
	value[bool](b, `(location.hash = location.hash.replace("sessions", "read"), true)`)
	b.until(`document.querySelector(".map")?.textContent === "some text↵"`)
}

// The list of lines shows the words of the text, not the names of single characters.
func TestPageListsLinesAsWritten(t *testing.T) {
	b := newTab(t)
	b.read("space\n\t\ntab ␣\n")
	b.click("Lines")
	b.until(`document.querySelectorAll(".strangest tbody tr").length === 3`)
	require.Equal(t, []string{"space", "→", "tab ␣"}, value[[]string](b,
		`[...document.querySelectorAll(".strangest .line")].map((e) => e.textContent)`))
}

func TestPageRatesLinesAfterProblem(t *testing.T) {
	b := newTab(t)
	path := b.create(ofCounts)
	b.text(path+"/score?unit=line", requestLog(0, 20))
	b.refuse(`unit=line`, 2)
	b.open(place("read", path))
	b.click("Try again")
	b.until(`document.querySelector(".problem h2")?.innerText === "The server is overloaded"`)
	b.click("Try again")
	b.until(`document.querySelector(".problem") === null &&
		document.querySelector(".map .heat0") !== null`)
	b.click("Lines")
	b.until(`document.querySelectorAll(".strangest tbody tr").length === 20`)
}

// Text may arrive within a character, at the end of a row.
func TestPageShowsCharacterThatArrivesInParts(t *testing.T) {
	b := newTab(t)
	path := b.create(`{"settings":{"chunk":1}}`)
	b.score(path, strings.Repeat("x", 400)+"\n")
	b.open(place("read", path))
	b.until(`document.querySelector(".totals .doing")?.textContent === "Watching…"`)
	b.until(`document.querySelectorAll(".map .row").length > 2`)
	columns := value[int](b, `document.querySelector(".map .row").textContent.length`)
	whole := strings.Repeat("y", columns-2) + "€€"
	b.score(path, whole[:columns])
	b.until(`document.querySelectorAll(".map .raw").length === 2`)
	b.score(path, whole[columns:]+"\n")
	b.until(`document.querySelector(".map").textContent.includes("€↵")`)
	require.Zero(t, value[int](b, `document.querySelectorAll(".map .raw").length`))
	require.Equal(t, 2, value[int](b,
		`[...document.querySelector(".map").textContent].filter((c) => c === "€").length`))
}

// In a narrow window, a long word is shown with the beginning of its line.
func TestPageShowsBeginningOfLineOfIncident(t *testing.T) {
	b := newTab(t)
	path := b.create(ofCounts)
	line := "09:05:00 ERROR" + strings.Repeat("LOST", 10)
	b.text(path+"/score?unit=line", requestLog(0, 400)+line+"\n")
	b.look(900, 800, false)
	b.open(place("incidents", path))
	b.until(`document.querySelector(".incident .line mark") !== null`)
	shown := value[string](b, `document.querySelector(".incident .line").textContent`)
	require.Equal(t, line, shown)
}

// The default model of a server may only rate lines. A text is then read by the model that the page
// shows as chosen.
func TestPageReadsWithNetworkByDefault(t *testing.T) {
	path := wantedBrowser(t)
	sources := make([]*model.Source, 2)
	for i, of := range []func() (*model.Model, error){modeltest.Small, modeltest.SmallOfWords} {
		m, err := of()
		require.NoError(t, err)
		sources[i], _, err = model.NewSource(func() (*model.Model, error) {
			return model.FromFile(m.File())
		})
		require.NoError(t, err)
	}
	o := session.Options{Threads: 2, Others: sources}
	b := newTabOn(newRealRigOf(t, model.Counts(), o, Options{}), path)
	b.until(`document.querySelector(".choose-model select") !== null`)
	shown := value[string](b, `document.querySelector(".choose-model select").value`)
	b.read("the cat sat on the mat .\n")
	require.Equal(t, shown, b.get(b.opened()).Model)
	require.Equal(t, api.MethodSparseMeta, b.get(b.opened()).Settings.Method)
}

func TestPageReadsOnServerWithoutNetwork(t *testing.T) {
	path := wantedBrowser(t)
	b := newTabOn(newRealRigOf(t, model.Counts(), session.Options{Threads: 2}, Options{}), path)
	b.read(requestLog(0, 20))
	b.click("Lines")
	b.until(`document.querySelectorAll(".strangest tbody tr").length === 20`)
}

// Only the user's changes are saved: another client's changes stay.
func TestPageSavesOnlyChangesOfUser(t *testing.T) {
	b := newTab(t)
	path := b.create(`{"labels":{"host":"web-1","role":"proxy"}}`)
	b.open(place("sessions", path))
	b.click("Name, labels")
	b.until(`document.querySelectorAll(".edit .label").length === 2`)
	b.send("PATCH", path, `{"labels":{"host":"web-2"},"ttl_seconds":86400}`)
	b.fill(`[aria-label="Label 2, its value"]`, "cache")
	b.click("Save")
	b.until(`document.querySelector(".edit [role=status]").innerText === "Saved."`)
	s := b.get(path)
	require.Equal(t, api.Labels{"host": "web-2", "role": "cache"}, *s.Labels)
	require.EqualValues(t, 86400, s.TTLSeconds)
}

// No key has characters beyond ASCII, and browsers do not send them.
func TestPageAsksAgainForImpossibleKey(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "alice"})
	b := newTabOf(t, Options{Keys: ring.Ring})
	b.until(`document.querySelector("dialog[open]") !== null`)
	b.run(chromedp.SetValue("#key-input", "lms_…"))
	b.press(kb.Enter)
	b.until(`document.querySelector("dialog[open] .warning") !== null`)
	b.run(chromedp.SetValue("#key-input", ring.token["alice"]))
	b.press(kb.Enter)
	b.until(`document.querySelector("dialog[open]") === null`)
	b.read("hello\n")
}

func TestPageReportsAnswerOfProxy(t *testing.T) {
	b := newTab(t)
	value[bool](b, `(window.fetch = () => Promise.resolve(
		new Response('{"message":"no upstream"}', {status: 502})), true)`)
	for _, view := range []string{"read", "incidents"} {
		b.open("#/" + view + "/web-1")
		b.until(`document.querySelector(".problem h2")?.innerText ===
			"The answer is not from lmserve" || document.querySelector(".state.lost") !== null`)
	}
}

// The settings of a new session fit its model, also if the server's default model only rates lines.
func TestPageCreatesSessionOfEachModel(t *testing.T) {
	path := wantedBrowser(t)
	m, err := modeltest.Small()
	require.NoError(t, err)
	small, _, err := model.NewSource(func() (*model.Model, error) {
		return model.FromFile(m.File())
	})
	require.NoError(t, err)
	o := session.Options{Threads: 2, Others: []*model.Source{small}}
	b := newTabOn(newRealRigOf(t, model.Counts(), o, Options{}), path)
	b.open("#/sessions")
	create := func(name string, choose func()) {
		b.click("New session…")
		b.until(`document.querySelector("dialog select") !== null`)
		choose()
		b.fill("dialog input:not([type])", name)
		b.click("Create")
		b.until(`document.querySelector(".details h2")?.innerText === "` + name + `"`)
	}
	create("lines", func() {})
	require.Equal(t, api.MethodCounts, b.get("/v1/sessions/lines").Settings.Method)
	create("text", func() {
		b.fill("dialog select", m.ID())
		value[bool](b, `document.querySelector("dialog select").dispatchEvent(`+
			`new Event("change", {bubbles: true}))`)
	})
	made := b.get("/v1/sessions/text")
	require.Equal(t, m.ID(), made.Model)
	require.Equal(t, api.MethodSparseMeta, made.Settings.Method)
	require.True(t, made.Settings.Baseline)
}

// The last word of a text waits for its end. The session has the word's bytes before their score.
func TestPageAddsToUnfinishedWord(t *testing.T) {
	b := newTabOfWords(t)
	path := b.create(withBaseline)
	b.open(place("read", path))
	b.until(`document.querySelector(".totals .doing")?.textContent === "Watching…"`)
	b.score(path, "the cat")
	b.until(`document.querySelector(".map")?.textContent === "the cat"`)
	b.until(`document.querySelector(".totals").innerText.includes("7 bytes")`)
	require.NotContains(t, value[string](b, `document.querySelector(".totals").innerText`), " of ")
	b.add("\n")
	b.until(`document.querySelector(".map")?.textContent === "the cat↵"`)
	b.untilText(path, "the cat\n")
	require.False(t, value[bool](b, `document.querySelector(".problem") !== null`))
}
