package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
)

// commit writes text into the sheet and commits it.
func (b *tab) commit(text string) {
	b.t.Helper()
	b.run(chromedp.Focus(".sheet textarea"))
	b.press(strings.Split(text, "")...)
	b.with(chromedp.ModifierCtrl, kb.Enter)
}

// openSheet feeds a text to a session, and waits until the sheet at the address shows the text.
func (b *tab) openSheet(address, path, text string) {
	b.t.Helper()
	b.score(path, text)
	b.open(address)
	b.until(fmt.Sprintf(`document.querySelector(".sheet textarea")?.value === %q`, text))
}

// commitAfterOther commits text that reaches the server after another client's text.
func (b *tab) commitAfterOther(address, path string) {
	b.t.Helper()
	b.openSheet(address, path, "start\n")
	b.slow(`\/score\?.*offset=`, 2000)
	b.commit("mine and more")
	b.until(`window.slowed > 0`)
	b.score(path, "theirs\n")
}

func TestPageFinishesTextAfterAnotherClient(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.commitAfterOther(place("write", path), path)
	value[bool](b, `(location.hash = "`+place("write", b.create(withBaseline))+`", true)`)
	b.untilText(path, "start\ntheirs\nmine and more")
	b.until(`!JSON.stringify(sessionStorage).includes("unsent")`)
}

// lose loses the answers to the page's next requests for scores. The variable lost counts them.
func (b *tab) lose() {
	b.t.Helper()
	value[bool](b, `(() => {
		const {fetch} = window;
		window.lost = 0;
		window.fetch = async (url, ...how) => {
			if (!/\/score\?/.test(url)) return fetch(url, ...how);
			await (await fetch(url, ...how)).text();
			window.lost++;
			throw new TypeError("the answer is lost");
		};
		return true;
	})()`)
}

func TestPageSendsTextOnceIfAnswersAreLost(t *testing.T) {
	b := newTab(t)
	want := "start\ntheirs\nmine and more"
	shown := strings.ReplaceAll(want, "\n", "↵")

	left := b.create(withBaseline)
	b.commitAfterOther(place("write", left), left)
	b.lose()
	value[bool](b, `(location.hash = "`+place("write", b.create(withBaseline))+`", true)`)
	b.untilText(left, want)
	b.until(`window.lost > 0`)
	b.open(place("read", left))
	b.untilWatches(shown)
	require.Equal(t, want, b.sessionText(left))

	again := b.create(withBaseline)
	b.run(chromedp.Reload())
	b.commitAfterOther(place("write", again), again)
	b.until(`document.querySelector(".problem") !== null`)
	b.lose()
	b.click("Try again")
	b.untilText(again, want)
	b.until(`window.lost > 0`)
	b.open(place("read", again))
	b.run(chromedp.Reload())
	b.untilWatches(shown)
	require.Equal(t, want, b.sessionText(again))
}

func TestPageSendsTextOfNamedSessionOnce(t *testing.T) {
	b := newTab(t)
	const path = "/v1/sessions/web-1"
	require.Equal(t, http.StatusCreated, b.send("PUT", path, withBaseline).StatusCode)
	b.commitAfterOther("#/write/web-1", path)
	b.click("Try again")
	b.untilText(path, "start\ntheirs\nmine and more")
}

// Text that the session has refused is sent whole after a reload.
func TestPageSendsRefusedTextAfterReload(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.openSheet(place("write", path), path, "start\n")
	b.refuse(`\/score\?.*offset=`, 1)
	b.commit("mine and more")
	b.until(`document.querySelector(".problem") !== null`)
	b.score(path, "mine too\n")
	b.run(chromedp.Reload())
	b.untilText(path, "start\nmine too\nmine and more")
}

// While a session with unsent text is opened, a commit leaves its text in the draft.
func TestPageSendsUnsentTextBeforeNewText(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, "start\n")
	id := path[strings.LastIndex(path, "/")+1:]
	value[bool](b, `(sessionStorage.setItem("lmserve.unsent.`+id+`", JSON.stringify(
		{offset: 6, text: [..."one "].map((c) => c.charCodeAt(0)), mayHaveTo: 10})), true)`)
	b.slow(`\/scores\?`, 2000)
	b.open(place("write", path))
	b.until(`window.slowed > 0 && document.querySelector(".sheet textarea")?.value === "start\n"`)
	b.commit("two")
	b.until(`document.querySelector(".sheet textarea").value === "start\none two"`)
	b.untilText(path, "start\none ")
	b.until(`!document.querySelector(".acts").innerText.includes("Learning")`)
	b.with(chromedp.ModifierCtrl, kb.Enter)
	b.untilText(path, "start\none two")
}

// untilWatches waits until the page shows a text and watches its session.
func (b *tab) untilWatches(text string) {
	b.t.Helper()
	b.until(`document.querySelector(".totals .doing")?.textContent === "Watching…" &&
		document.querySelector(".map").textContent === "` + text + `" &&
		document.querySelector(".problem") === null`)
}

// The server may lack the scores of a fork's newest text. Later text keeps the cost of each token.
func TestPageKeepsCostsAfterTextWithoutScores(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, strings.Repeat("some text\n", 2000)) // too long for scores of each token
	b.score(path, "no score\n")
	value[bool](b, `(() => {
		const {fetch} = window;
		window.fetch = async (url, ...how) => {
			const answer = await fetch(url, ...how);
			if (/\/sessions\/[^/]+$/.test(url)) {
				const session = await answer.json();
				session.totals.bytes = 20000;
				return new Response(JSON.stringify(session));
			}
			if (!/\/scores\?/.test(url) || window.isScored) return answer;
			window.isScored = true;
			const past = await answer.json();
			const scores = past.scores.filter((s) => s.offset + s.bytes <= 20000);
			return new Response(JSON.stringify({...past, scores}));
		};
		return true;
	})()`)
	value[bool](b, `(location.hash = "`+place("read", path)+`", true)`)
	b.until(`document.querySelector(".totals .doing")?.textContent === "Watching…"`)
	b.click("Adaptive")
	for i := range 3 {
		b.add("more\n")
		b.untilText(path, strings.Repeat("some text\n", 2000)+"no score\n"+
			strings.Repeat("more\n", i+1))
		b.until(`document.querySelector(".totals .doing")?.textContent === ""`)
	}
	require.Contains(t, value[string](b, `document.querySelector(".coarse").innerText
		.replaceAll("\u202f", "")`), "first 20000 bytes")
}

func TestPageShowsSessionAfterFailedOpening(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, "some text\n")
	b.open(place("read", path))
	b.untilWatches("some text↵")
	value[bool](b, `(location.hash = "#/read/missing", true)`)
	b.until(`document.querySelector(".problem h2")?.innerText === "The session does not exist"`)
	require.Empty(t, value[string](b, `document.querySelector(".session-name").innerText`))
	value[bool](b, `(history.back(), true)`)
	b.untilWatches("some text↵")
	b.score(path, "and more\n")
	b.untilWatches("some text↵and more↵")
}

func TestPageShowsSessionAfterSlowOpening(t *testing.T) {
	b := newTab(t)
	path, slow := b.create(withBaseline), b.create(withBaseline)
	b.score(path, "some text\n")
	b.open(place("read", path))
	b.untilWatches("some text↵")
	b.slow(strings.ReplaceAll(slow[1:], "/", `\/`)+"$", 1000)
	value[bool](b, `(location.hash = "`+place("read", slow)+`", true)`)
	b.until(`window.slowed > 0`)
	value[bool](b, `(history.back(), true)`)
	time.Sleep(1500 * time.Millisecond) // time for the slow answer
	b.score(path, "and more\n")
	b.untilWatches("some text↵and more↵")
}

// Work on the session before does not cancel the opening of the session in the address.
func TestPageOpensSessionDespiteWorkOnAnother(t *testing.T) {
	b := newTab(t)
	other, slow := b.create(withBaseline), b.create(withBaseline)
	b.score(slow, "some text\n")
	same := strings.ReplaceAll(slow[1:], "/", `\/`) + "$"
	leave := func(view string) {
		t.Helper()
		b.slow(same, 1000)
		value[bool](b, `(location.hash = "`+place(view, slow)+`", true)`)
		b.until(`window.slowed > 0`)
	}
	b.open(place("read", other))
	b.untilWatches("")
	leave("read")
	value[any](b, `[...document.querySelectorAll("button")].find((e) =>
		e.innerText === "Stop")?.click(), true`)
	b.untilWatches("some text↵")
	b.open(place("write", other))
	b.until(`document.querySelector(".sheet textarea") !== null`)
	b.run(chromedp.Focus(".sheet textarea"))
	leave("write")
	b.press("O", "n", "e", ".", " ")
	b.until(`document.querySelector(".sheet textarea")?.value === "some text\n"`)
	require.Equal(t, "some text\n", b.sessionText(slow))
}

// A file that is read late is not fed to a session that the user has left.
func TestPageFeedsFileOnlyToShownSession(t *testing.T) {
	b := newTab(t)
	left, path := b.create(withBaseline), b.create(withBaseline)
	b.open(place("read", left))
	b.untilWatches("")
	value[bool](b, `(() => {
		const {arrayBuffer} = Blob.prototype;
		Blob.prototype.arrayBuffer = async function () {
			await new Promise((done) => setTimeout(done, 1000));
			window.isRead = true;
			return arrayBuffer.call(this);
		};
		return true;
	})()`)
	b.click("Add text")
	b.chooseFile("late.log", []byte("text\n"))
	value[bool](b, `(location.hash = "`+place("read", path)+`", true)`)
	b.until(`window.isRead`)
	b.score(path, "some text\n")
	b.untilWatches("some text↵")
	require.Empty(t, b.sessionText(left))
}

// A session that is created or forked late does not replace the one that the user has opened.
func TestPageStaysInSessionOpenedMeanwhile(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, "some text\n")
	leave := func() {
		t.Helper()
		b.until(`window.slowed > 0`)
		value[bool](b, `(location.hash = "`+place("read", path)+`", true)`)
		b.untilWatches("some text↵")
		time.Sleep(1500 * time.Millisecond) // longer than the delay
		b.untilWatches("some text↵")
		require.Equal(t, place("read", path), value[string](b, `location.hash`))
	}
	for i, failures := range []int{0, 1} {
		b.open("")
		b.until(`document.querySelector(".composer textarea") !== null`)
		b.refuse(`\/score\?.*offset=`, failures)
		b.slow(`\/sessions$`, 1000)
		b.fill(".composer textarea", "late\n")
		b.click("Read it")
		leave()
		all := decode[api.SessionList](t, b.do("GET", "/v1/sessions", nil), http.StatusOK)
		require.Len(t, all.Sessions, i+2)
		for _, s := range all.Sessions {
			made := "/v1/sessions/" + s.ID
			if made == path {
				continue
			}
			if failures > 0 { // the new session gets the text when it is opened
				b.open(place("read", made))
			}
			b.untilText(made, "late\n")
		}
	}

	b.open(place("write", b.create(withBaseline)))
	b.until(`document.querySelector(".sheet textarea") !== null`)
	b.commit("late")
	b.until(`document.querySelector(".acts").innerText.includes("Undo")`)
	b.until(`!document.querySelector(".acts").innerText.includes("Learning")`)
	b.slow(`\/fork$`, 1000)
	b.with(chromedp.ModifierCtrl, "z")
	leave()
}

// An address with the old name of a session gets the id, also in another view.
func TestPageReplacesOldNameInAddress(t *testing.T) {
	b := newTab(t)
	require.Equal(t, http.StatusCreated, b.send("PUT", "/v1/sessions/old", ofCounts).StatusCode)
	id := b.get("/v1/sessions/old").ID
	b.open("#/sessions/old")
	b.click("Name, labels")
	b.fill(".edit input", "new")
	b.slow(`\/sessions\/`+id+`$`, 1000)
	value[any](b, `[...document.querySelectorAll(".details button")].find((e) =>
		e.innerText === "Save").click(), true`)
	b.until(`window.slowed > 0`)
	value[bool](b, `(location.hash = "#/read/old", true)`)
	b.until(`location.hash === "#/read/` + id + `"`)
	b.untilWatches("")
}

// Late answers of the view of sessions do not move a user who has left.
func TestPageStaysWhereUserHasGone(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.open(place("sessions", path))
	same := strings.ReplaceAll(path[1:], "/", `\/`) + "$"
	late := func(summary, pattern, button string) {
		t.Helper()
		value[bool](b, `(location.hash = "`+place("sessions", path)+`", true)`)
		b.click(summary)
		b.slow(pattern, 500)
		value[any](b, `[...document.querySelectorAll("dialog button, .details button")].find((e) =>
			e.innerText === "`+button+`").click(), true`)
		b.until(`window.slowed > 0`)
		value[bool](b, `(location.hash = "#/incidents", true)`)
		time.Sleep(1500 * time.Millisecond) // longer than two delays
		require.Equal(t, "#/incidents", value[string](b, `location.hash`), button)
	}
	late("Name, labels", same, "Save")
	late("Fork at any byte", `\/fork$`, "Fork at the end")
	late("Delete…", same, "Delete")
	require.Equal(t, http.StatusNotFound, b.do("GET", path, nil).StatusCode)
}
