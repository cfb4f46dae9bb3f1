package server

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
)

const withBaseline = `{"settings":{"baseline":true}}`

// place returns the URL fragment that opens a session in a view, such as "#/learn/ID".
func place(view, path string) string {
	return "#/" + view + "/" + strings.TrimPrefix(path, "/v1/sessions/")
}

func (b *tab) fill(selector, text string) {
	b.t.Helper()
	value[bool](b, fmt.Sprintf(`(() => {
		const field = document.querySelector(%q);
		field.value = %q;
		return field.dispatchEvent(new Event("input", {bubbles: true}));
	})()`, selector, text))
}

func (b *tab) with(modifier chromedp.Modifier, key string) {
	b.t.Helper()
	b.run(chromedp.KeyEvent(key, chromedp.KeyModifiers(modifier)))
}

func (b *tab) attribute(selector, name string) string {
	b.t.Helper()
	return value[string](b, fmt.Sprintf(`document.querySelector(%q).getAttribute(%q) ?? ""`,
		selector, name))
}

func (b *tab) sessionText(path string) string {
	b.t.Helper()
	raw, err := io.ReadAll(b.do("GET", path+"/text?length=1048576", nil).Body)
	require.NoError(b.t, err)
	return string(raw)
}

func TestPageShowsWhatTextCostsAndWhatUpdatesDo(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	before := b.score(path, numbered(1, 3000)).Totals
	b.open(place("learn", path))
	adapted := fmt.Sprintf("%.3f", before.Bits/float64(before.Bytes))
	b.until(`document.querySelector(".sums .adapted dd")?.textContent === "` + adapted + `"`)
	b.until(`document.querySelector(".chart canvas") !== null`)
	require.Contains(t, value[string](b, `document.querySelector(".weights").innerText`),
		"next update will appear")

	b.until(`document.querySelector(".live")?.innerText.startsWith("Watching")`)
	after := b.score(path, numbered(2, 1600))
	adapted = fmt.Sprintf("%.3f", after.Totals.Bits/float64(after.Totals.Bytes))
	b.until(`document.querySelector(".sums .adapted dd").textContent === "` + adapted + `"`)
	b.checkNetwork(after)
	b.until(`(() => { // the updates that the page has seen are drawn
		const canvas = document.querySelector(".strips canvas");
		if (!(canvas?.width > 100)) return false;
		const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
		return data.some((value, i) => i % 4 === 3 && value > 0);
	})()`)

	b.click("As tables")
	seen := `[...document.querySelectorAll(".tables table:first-of-type tbody tr")]
		.reduce((sum, row) => sum + Number(row.lastElementChild.textContent), 0)`
	b.until(seen + fmt.Sprintf(` === %d`, b.get(path).Step-uint64(3000/16)))
	require.Positive(t, value[int](b,
		`document.querySelectorAll(".tables table:last-of-type tbody tr").length`))
	b.checkLooks("learn")
}

// checkNetwork requires that the page shows the network's cost without the companion, in bits per
// byte. The chart must have a line for this cost.
func (b *tab) checkNetwork(seen api.SummaryEvent) {
	b.t.Helper()
	require.NotNil(b.t, seen.NetworkBits)
	bytes := float64(seen.Bytes)
	b.until(fmt.Sprintf(
		`document.querySelector(".sums .network dd")?.innerText === "%.3f session: %.3f"`,
		*seen.NetworkBits/bytes, seen.Bits/bytes))
	require.Equal(b.t, []string{"adapted with companion", "network alone", "static alone"},
		value[[]string](b, `[...document.querySelectorAll(".lines-key li")]
			.map((e) => e.innerText.replace(/[\s\d.]+$/, ""))`))
}

func TestPageShowsLearningWithTheKeyboardAlone(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, numbered(1, 3000))
	b.open(place("learn", path))
	b.until(`document.querySelector(".chart canvas") !== null`)
	b.run(chromedp.Focus(".along"))
	end := b.attribute(".along", "aria-valuetext")
	require.Contains(t, end, "static")
	b.press(kb.ArrowLeft, kb.ArrowLeft)
	b.until(fmt.Sprintf(`document.querySelector(".along").getAttribute("aria-valuetext") !== %q`,
		end))
	b.press("+")
	b.until(`document.querySelector(".along").getAttribute("aria-valuemin") === "1500"`)
	b.press("0")
	b.until(`document.querySelector(".along").getAttribute("aria-valuemin") === "0"`)
}

func TestPageShowsASessionsShadows(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, numbered(1, 1600))
	id := strings.TrimPrefix(path, "/v1/sessions/")
	shadows := []string{
		b.create(fmt.Sprintf(`{"shadow_of":%q,"settings":{"p":0}}`, id)),
		b.create(fmt.Sprintf(`{"shadow_of":%q,"settings":{"method":"static","companion":true}}`,
			id)),
	}
	b.open(place("learn", path))
	for i, name := range []string{"sparse-meta write probability 0", "static"} {
		of := fmt.Sprintf(".sums .shadow%d ", i+1)
		b.until(`document.querySelector("` + of + `dt")?.innerText === "Shadow ` + name +
			`, up to byte 1\u202f600"`)
		require.Contains(t, value[string](b, `document.querySelector("`+of+`dd").innerText`),
			fmt.Sprintf("%.3f", b.get(shadows[i]).Totals.Bits/1600))
	}
	require.Equal(t, 4, value[int](b, `document.querySelectorAll(".lines-key li").length`))
	b.checkLooks("learn-shadows")
}

func TestPageWritesWithTheKeyboardAlone(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.openSheet(place("write", path), path, "What the session has.\n")
	b.run(chromedp.Focus(".sheet textarea"))
	b.press("H", "i")
	b.with(chromedp.ModifierAlt, kb.Enter)
	sampled := `!document.querySelector(".cards").innerText.includes("No suggestion yet") &&
		document.querySelectorAll(".card[aria-busy=true]").length === 0`
	b.until(sampled)
	b.with(chromedp.ModifierAlt, "]")
	b.until(`document.querySelector(".acts").innerText.includes("Next (2)")`)
	b.until(sampled)
	b.checkLooks("write")
	b.press(kb.Escape)
	b.until(`document.querySelector(".cards").innerText.includes("No suggestion yet")`)
	require.Equal(t, "What the session has.\n", b.sessionText(path),
		"what is discarded is nobody's")

	b.with(chromedp.ModifierAlt, "2")
	b.until(`document.querySelector(".card.static").classList.contains("chosen")`)
	b.with(chromedp.ModifierAlt, kb.Enter)
	b.until(`document.querySelector(".card.static footer") !== null`)
	b.press(kb.Tab)
	b.until(
		`document.querySelector(".sheet .fixed").textContent.startsWith("What the session ` +
			`has.\nHi")`)
	b.until(`!document.querySelector(".acts").innerText.includes("Learning")`)
	text := b.sessionText(path)
	require.Greater(t, len(text), len("What the session has.\nHi"))

	b.press("B", "y", "e")
	b.with(chromedp.ModifierCtrl, kb.Enter)
	b.until(`document.querySelector(".sheet .fixed").textContent.endsWith("Bye")`)
	b.until(`!document.querySelector(".acts").innerText.includes("Learning")`)
	require.Equal(t, text+"Bye", b.sessionText(path))
}

// After a line has been read many times, the page suggests the rest of that line. Tab accepts the
// suggestion's next word, and a second Tab the whole suggestion.
func TestPageOffersWhatComesNext(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	line := "The quick brown fox jumps over the lazy dog, as always.\n"
	b.score(path, strings.Repeat(line, 40))
	b.open(place("write", path))
	b.until(`document.querySelector(".sheet textarea")?.value.endsWith("as always.\n")`)
	b.run(chromedp.Focus(".sheet textarea"))
	ghost := `document.querySelector(".sheet .ghost:not(:empty)")?.textContent`
	b.press("T", "h", "e", " ", "q")
	b.until(ghost + `?.startsWith("uick brown")`)
	b.checkLooks("write-offer")
	draft := `document.querySelector(".sheet textarea").value.split("\n").at(-1)`
	b.press(kb.Tab)
	b.until(draft + ` === "The quick "`)
	require.Regexp(t, "^brown ", value[string](b, ghost))
	b.press(kb.Tab)
	b.until(draft + `.startsWith("The quick brown fox jumps")`)
	before := len(b.sessionText(path))
	value[bool](b, `(() => {
		const area = HTMLTextAreaElement.prototype;
		const {get, set} = Object.getOwnPropertyDescriptor(area, "value");
		window.shrunk = 0;
		Object.defineProperty(area, "value", {get, set(text) {
			if (text.length < get.call(this).length) window.shrunk++;
			set.call(this, text);
		}});
		return true;
	})()`)
	b.press(kb.Enter)
	b.until(draft + ` === "" && document.querySelector(".acts").innerText.includes("Undo")`)
	require.True(t, value[bool](b, `window.shrunk === 0`), "no written text disappears")
	b.until(`!document.querySelector(".acts").innerText.includes("Learning")`)
	require.Greater(t, len(b.sessionText(path)), before)

	// Escape rejects a suggestion for the current line. Ctrl+Space lists suggestions.
	b.press("T", "h", "e", " ", "q")
	b.until(ghost + `?.startsWith("uick")`)
	b.press(kb.Escape)
	b.until(ghost + ` === undefined`)
	b.press("u")
	b.with(chromedp.ModifierCtrl, " ")
	b.until(`document.querySelector(".offers li .said")?.textContent.startsWith("ick")`)
	require.True(t, value[bool](b, ghost+` === undefined`))
	b.checkLooks("write-offers")
	b.press(kb.Tab)
	b.until(draft + `.startsWith("The quick")`)
	b.press(kb.End)
	for range len(value[string](b, draft)) {
		b.press(kb.Backspace)
	}
	b.until(draft + ` === ""`)

	here := value[string](b, `location.hash`)
	b.with(chromedp.ModifierCtrl, "z")
	b.until(`location.hash !== "` + here + `"`)
	b.until(
		`document.querySelector(".sheet textarea")?.value.startsWith("The quick brown fox jumps ` +
			`over the lazy dog, as always.\n")`)
	b.until(
		`document.querySelector(".sheet textarea").value.endsWith("jumps over the lazy dog, ` +
			`as \n")`)
	fork := value[string](b, `"/v1/sessions/" + location.hash.split("/")[2]`)
	require.Len(t, b.sessionText(fork), before)
}

// Tab accepts one word of a suggestion, even right after an earlier suggestion was accepted whole.
// Typing a dismissed suggestion does not suppress later suggestions. The list shows suggestions for
// the cursor's position.
func TestPageOffersOneAfterTheOther(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, strings.Repeat("The quick brown fox jumps over the lazy dog, as always, "+
		"and sleeps below the old oak tree then.\n", 40))
	b.open(place("write", path))
	b.until(`document.querySelector(".sheet textarea")?.value.endsWith("tree then.\n")`)
	b.run(chromedp.Focus(".sheet textarea"))
	ghost := `document.querySelector(".sheet .ghost:not(:empty)")?.textContent`
	draft := `document.querySelector(".sheet textarea").value.split("\n").at(-1)`
	b.press("T", "h", "e", " ", "q")
	b.until(ghost + `?.startsWith("uick brown")`)
	b.press(kb.Tab, kb.Tab)
	b.until(draft + `.startsWith("The quick brown fox jumps") && ` + ghost + ` !== undefined`)
	written, offered := value[string](b, draft), value[string](b, ghost)
	require.Greater(t, len(strings.Fields(offered)), 2, offered)
	b.press(kb.Tab)
	b.until(draft + `.length > ` + fmt.Sprint(len(written)))
	word, _, _ := strings.Cut(offered, " ")
	require.Equal(t, written+word+" ", value[string](b, draft))

	offered = value[string](b, ghost)
	b.press(kb.Escape)
	b.until(ghost + ` === undefined`)
	b.press(strings.Split(offered, "")...)
	b.until(ghost + ` !== undefined`)

	b.press(kb.Enter)
	b.until(draft + ` === ""`)
	b.until(`document.querySelector(".acts").innerText.includes("Undo")`)
	b.until(`!document.querySelector(".acts").innerText.includes("Learning")`)
	b.press("T", "h", "e", " ", "q")
	b.until(draft + ` === "The q"`)
	b.with(chromedp.ModifierCtrl, " ")
	b.until(`document.querySelector(".offers li .said")?.textContent === "uick"`)
	b.press(kb.ArrowLeft)
	b.until(`document.querySelector(".offers") === null`)
	b.with(chromedp.ModifierCtrl, " ")
	b.until(`document.querySelector(".offers li .said")?.textContent === "quick"`)
	b.press(kb.Tab)
	b.until(draft + ` === "The quickq"`)

	// Without a suggestion, the first Tab has no effect, and a second Tab moves the focus out of
	// the text.
	inSheet := `document.activeElement.tagName === "TEXTAREA"`
	b.press(kb.Tab)
	require.True(t, value[bool](b, inSheet))
	b.press(kb.Tab)
	require.False(t, value[bool](b, inSheet))
	require.Equal(t, "The quickq", value[string](b, draft))
}

// slow delays the page's requests whose URLs match a regular expression by ms milliseconds. The
// page's variable slowed counts these requests.
func (b *tab) slow(pattern string, ms int) {
	b.t.Helper()
	value[bool](b, fmt.Sprintf(`(() => {
		const {fetch} = window;
		window.slowed = 0;
		window.fetch = async (url, ...how) => {
			if (/%s/.test(url)) {
				window.slowed++;
				await new Promise((done) => setTimeout(done, %d));
			}
			return fetch(url, ...how);
		};
		return true;
	})()`, pattern, ms))
}

// Typed text is kept while the session's text loads, while another view is shown, during an undo,
// and after a reload. If another session is opened while the server learns a sentence, the sentence
// is still learned.
func TestPageLosesNothingThatIsWritten(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	has := "What the session has.\n"
	b.score(path, has)
	b.slow(`\/text\?.*length=\d\d`, 1000)
	text := `document.querySelector(".sheet textarea")?.value`
	b.open(place("write", path))
	b.until(`window.slowed > 0 && ` + text + ` === ""`)
	b.run(chromedp.Focus(".sheet textarea"))
	b.press("H", "i")
	b.with(chromedp.ModifierCtrl, kb.Enter)
	b.until(fmt.Sprintf(`%s === %q`, text, has+"Hi"))
	b.with(chromedp.ModifierCtrl, kb.Enter)
	fixed := `document.querySelector(".sheet .fixed").textContent`
	b.until(fmt.Sprintf(`%s === %q`, fixed, has+"Hi"))
	b.until(`!document.querySelector(".acts").innerText.includes("Learning")`)
	require.Equal(t, has+"Hi", b.sessionText(path))

	b.press("B", "y")
	b.until(fmt.Sprintf(`%s === %q`, text, has+"HiBy"))
	b.open(place("learn", path))
	b.until(`document.querySelector(".sheet") === null`)
	b.open(place("write", path))
	b.until(fmt.Sprintf(`%s === %q`, text, has+"HiBy"))
	b.until(`document.activeElement?.tagName === "TEXTAREA"`)
	b.run(chromedp.Reload())
	b.until(fmt.Sprintf(`%s === %q`, text, has+"HiBy"))
	b.until(`document.activeElement?.tagName === "TEXTAREA"`)
	b.with(chromedp.ModifierCtrl, kb.Enter)
	b.until(`document.querySelector(".acts").innerText.includes("Undo")`)
	b.until(`!document.querySelector(".acts").innerText.includes("Learning")`)
	require.Equal(t, has+"HiBy", b.sessionText(path))
	require.True(t, value[bool](b, `!Object.values(sessionStorage).includes("By")`),
		"a learned draft is not kept")

	b.slow(`\/fork$`, 500)
	here := value[string](b, `location.hash`)
	b.with(chromedp.ModifierCtrl, "z")
	b.with(chromedp.ModifierCtrl, "z")
	b.press("e")
	b.until(`location.hash !== "` + here + `"`)
	b.until(fmt.Sprintf(`%s === %q`, text, has+"HiBye"))
	b.until(`document.activeElement?.tagName === "TEXTAREA"`)
	fork := value[string](b, `"/v1/sessions/" + location.hash.split("/")[2]`)
	require.Equal(t, has+"Hi", b.sessionText(fork))
	b.until(`fetch("v1/sessions").then((r) => r.json()).then((all) => all.sessions.length === 2)`)

	b.slow(`\/score\?`, 500)
	b.press(".", " ")
	b.until(`document.querySelector(".acts").innerText.includes("Learning")`)
	b.open(place("write", b.create(withBaseline)))
	require.Eventually(t, func() bool { return b.sessionText(fork) == has+"HiBye. " },
		browserWait, 50*time.Millisecond)
}

func TestPageKeepsTheSessionsTextFromBeingWrittenOver(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.openSheet(place("write", path), path, "fixed\n")
	b.run(chromedp.Focus(".sheet textarea"))
	b.press(kb.Backspace)
	b.until(`document.querySelector("#sheet-note").innerText.includes("has learned this part")`)
	require.Equal(t, "fixed\n", value[string](b, `document.querySelector(".sheet textarea").value`))
}

func TestPageListsAndFindsSessions(t *testing.T) {
	b := newTab(t)
	for i := range 60 {
		b.create(fmt.Sprintf(`{"labels":{"host":"web-%d"}}`, i))
	}
	b.open("#/sessions")
	rows := `document.querySelectorAll("table.sessions tbody tr").length`
	b.until(rows + ` === 50`)
	// Sessions created at the same time are shown under different names.
	b.until(`new Set([...document.querySelectorAll("table.sessions th a")]
		.map((link) => link.innerText)).size === 50`)
	b.checkLooks("sessions")
	b.click("Show more")
	b.until(rows + ` === 60`)
	b.fill(".find input", "host:web-5")
	b.until(rows + ` === 11`) // web-5, and web-50 to web-59
	b.run(chromedp.Focus("table.sessions a"))
	b.press(kb.Enter)
	b.until(`document.activeElement.matches(".details h2")`)
	b.fill(".find input", "nothing like that")
	b.until(`document.querySelector(".foot").innerText.startsWith("None of 60 sessions matches.")`)
}

func TestPageForksComparesChangesAndDeletesASession(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, numbered(1, 2000))
	b.open(place("sessions", path))
	b.click("Fork at any byte")
	b.until(`document.querySelector(".travelled")?.innerText.length > 1000`)
	b.fill(`.travel input[type="number"]`, "700")
	b.until(`document.querySelector(".travelled").getAttribute("aria-valuenow") === "700"`)
	b.run(chromedp.Focus(".travelled"))
	b.press(kb.ArrowUp) // The key moves the slider to the beginning of a line.
	b.until(`document.querySelector(".travelled").getAttribute("aria-valuenow") === "682"`)
	b.fill(".fork .in-a-row input", "earlier")
	b.click("Fork at byte 682")
	b.until(`document.querySelector(".details h2")?.innerText === "earlier"`)
	require.Equal(t, numbered(1, 682), b.sessionText("/v1/sessions/earlier"))

	b.click("Compare with")
	b.fill(".compare textarea", "1: GET /item/5 -> 200\n")
	b.click("Score with both")
	b.until(`document.querySelector(".compared") !== null`)
	for i, one := range []string{"/v1/sessions/earlier", path} {
		unlearnt := decode[api.SummaryEvent](t,
			b.text(one+"/score?learn=false", "1: GET /item/5 -> 200\n"), http.StatusOK)
		require.Equal(t, fmt.Sprintf("%.1f", unlearnt.Bits), value[string](b, fmt.Sprintf(
			`document.querySelectorAll(".compared tbody tr")[%d].children[1].textContent`, i)))
	}

	b.click("Name, labels")
	b.fill(".edit > label input", "renamed")
	b.click("Add a label")
	b.fill(`[aria-label="Label 1, its name"]`, "why")
	b.fill(`[aria-label="Label 1, its value"]`, "<b>what if</b>")
	b.click("Save")
	b.until(`document.querySelector(".edit [role=status]").innerText === "Saved."`)
	require.Equal(t, "<b>what if</b>", (*b.get("/v1/sessions/renamed").Labels)["why"])
	require.Equal(t, "renamed", value[string](b, `document.querySelector(".details h2").innerText`))
	require.Equal(t, "renamed",
		value[string](b, `document.querySelector(".session-name").innerText`))
	b.checkLooks("session")

	b.click("Delete…")
	b.until(`document.querySelector("dialog[open]") !== null`)
	b.checkLooks("delete")
	value[any](b, `document.querySelector("dialog .danger").click(), true`)
	b.until(`document.querySelector(".details") === null`)
	require.Equal(t, http.StatusNotFound, b.do("GET", "/v1/sessions/renamed", nil).StatusCode)
	require.EqualValues(t, 2000, b.get(path).Offset, "the session that was forked is as it was")
}

func TestPageMakesComparesAndDetachesAShadow(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, numbered(1, 1600))
	b.open(place("sessions", path))
	b.click("Shadow")
	b.click("Create a shadow")
	b.until(
		`document.querySelector(".shadows tbody small")?.textContent === "up to byte 1\u202f600"`)
	shadow := b.get(path).Shadows[0]
	require.Equal(t, "static", string(b.get("/v1/sessions/"+shadow.ID).Settings.Method))
	b.until(`[...document.querySelectorAll("table.sessions tbody tr")].filter((row) =>
		row.querySelector("[data-name=Text]").innerText === "1\u202f600 B").length === 2`)
	require.Equal(t, strings.ReplaceAll(fmt.Sprintf("%.3f", *shadow.Compared.Difference), "-",
		"\u2212"),
		value[string](b, `document.querySelectorAll(".shadows tbody td")[2].textContent`))
	b.checkLooks("shadows")
	b.click("Detach")
	b.until(`document.querySelector(".shadows tbody") === null`)
	require.Empty(t, b.get(path).Shadows)
	require.EqualValues(t, 1600, b.get("/v1/sessions/"+shadow.ID).Offset)

	value[bool](b, `(() => {
		const method = document.querySelectorAll(".shadows select")[1];
		method.value = "sparse-meta";
		return method.dispatchEvent(new Event("change", {bubbles: true}));
	})()`)
	b.click("Further settings of sparse-meta")
	b.until(`document.querySelectorAll(".settings input").length === 7`)
	b.fill(`.settings label:nth-child(2) input`, "0.25")
	b.fill(`.settings label:nth-child(3) input`, "0.5, 0.75")
	b.checkLooks("shadow-settings")
	value[bool](b, `(document.querySelector(".shadows .check input").click(), true)`)
	// Without the companion, the form has no field for the size of the companion's table.
	b.until(`document.querySelectorAll(".settings input").length === 6`)
	b.click("Create a shadow")
	b.until(`document.querySelector(".shadows tbody a")?.innerText.includes("companion false")`)
	settings := b.get("/v1/sessions/" + b.get(path).Shadows[0].ID).Settings
	require.InDelta(t, 0.25, settings.P, 0)
	require.Equal(t, []float32{0.5, 0.75}, settings.Gammas)
	require.False(t, settings.Companion)
}

func TestPageExportsAndImportsASession(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, numbered(1, 500))
	b.open(place("sessions", path))
	value[bool](b, `(() => {
		const make = URL.createObjectURL;
		URL.createObjectURL = (file) => {
			window.saved = {size: file.size};
			return make(file);
		};
		HTMLAnchorElement.prototype.click = function () { window.saved.name = this.download; };
		return true;
	})()`)
	b.click("Export")
	b.until(`window.saved?.name?.endsWith(".tar")`)
	require.Greater(t, value[int](b, `window.saved.size`), 1000)
	file := filepath.Join(t.TempDir(), "session.tar")
	require.NoError(t, os.WriteFile(file, b.export(path), 0o600))

	b.click("New session…")
	b.until(`document.querySelector("dialog[open]") !== null`)
	b.checkLooks("new-session")
	b.fill("dialog input:not([type])", "copy")
	b.run(chromedp.SetUploadFiles(`dialog input[type="file"]`, []string{file}))
	b.click("Import")
	b.until(`document.querySelector(".details h2")?.innerText === "copy"`)
	require.EqualValues(t, 500, b.get("/v1/sessions/copy").Offset)

	b.click("New session…")
	b.fill("dialog input:not([type])", "fresh")
	b.click("Create")
	b.until(`document.querySelector(".details h2")?.innerText === "fresh"`)
	fresh := b.get("/v1/sessions/fresh").Settings
	require.Equal(t, []bool{true, true}, []bool{fresh.Companion, fresh.Baseline})
}
