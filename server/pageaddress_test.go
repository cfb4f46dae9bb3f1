package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// commit writes text into the sheet and commits it.
func (b *tab) commit(text string) {
	b.t.Helper()
	b.run(chromedp.Focus(".sheet textarea"))
	b.press(strings.Split(text, "")...)
	b.with(chromedp.ModifierCtrl, kb.Enter)
}

// commitAfterOther commits text that reaches the server after another client's text.
func (b *tab) commitAfterOther(address, path string) {
	b.t.Helper()
	b.score(path, "start\n")
	b.open(address)
	b.until(`document.querySelector(".sheet textarea")?.value === "start\n"`)
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

func TestPageSendsTextOfNamedSessionOnce(t *testing.T) {
	b := newTab(t)
	const path = "/v1/sessions/web-1"
	require.Equal(t, http.StatusCreated, b.send("PUT", path, withBaseline).StatusCode)
	b.commitAfterOther("#/write/web-1", path)
	b.click("Try again")
	b.untilText(path, "start\ntheirs\nmine and more")
}
