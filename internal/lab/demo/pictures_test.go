package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
)

// TestPicturesOfThePage makes the pictures of the documentation, with a headless Chromium. `make
// pictures` sets LMSERVE_PICTURES to the folder for the pictures.
func TestPicturesOfThePage(t *testing.T) {
	folder := os.Getenv("LMSERVE_PICTURES")
	if folder == "" {
		t.Skip("make pictures makes them")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	s, err := start(ctx, filepath.Join("..", "..", "..", "bin", "lmserve"))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.stop()) }()
	log, err := filepath.Abs("incident.log")
	require.NoError(t, err)
	tab := newTab(t)
	do := func(steps ...step) { require.NoError(t, chromedp.Do(tab, steps...)) }
	do(chromedp.EmulateViewport(1280, 800), chromedp.Navigate(s.url+"/"),
		chromedp.SetUploadFiles(".composer input[type=file]", []string{log}))
	waitUntilRead(ctx, t, s.url)
	do(chromedp.Click(`//main//button[normalize-space()="Lines"]`),
		chromedp.Click(`//main//button[contains(., "ERROR")]`), chromedp.Focus(".map"),
		chromedp.Sleep(2*time.Second), picture(folder, "read.webp"))
	do(chromedp.Click(`//nav/a[normalize-space()="Learn"]`),
		chromedp.Sleep(2*time.Second), picture(folder, "learn.webp"))
}

type step = chromedp.Action[chromedp.Void]

func newTab(t *testing.T) context.Context {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)
	browser, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	tab, stop := chromedp.NewContext(browser)
	t.Cleanup(stop)
	return tab
}

func waitUntilRead(ctx context.Context, t *testing.T, url string) {
	c, err := client.New(url)
	require.NoError(t, err)
	for read := int64(0); read < int64(len(incident)); time.Sleep(time.Second) {
		require.NoError(t, ctx.Err())
		for session, err := range c.Sessions(ctx, "") {
			require.NoError(t, err)
			// the session of the method counts only rates lines
			if session.Settings.Method != "counts" {
				read = session.Offset
			}
		}
	}
}

func picture(folder, name string) step {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		quality := int64(80) // quality in percent
		shot, err := cdp.Call(ctx, tab, page.CaptureScreenshot, page.CaptureScreenshotParams{
			Format: page.CaptureScreenshotFormatWebp, Quality: &quality,
		})
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, name), shot.Data, 0o644)
	})
}
