package otlp

import (
	"encoding/json"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// envBrowser names a Chromium that has no window; `make page-test` sets it.
const envBrowser = "DISTORT_CHROMIUM"

// probe looks at the page as it is laid out and leaves what it saw in the document.
const probe = `<script>
addEventListener("load", () => {
  const seen = {Spans: [], DeadLinks: [], Requests: performance.getEntriesByType("resource").map(r => r.name), Overflows: document.documentElement.scrollWidth > innerWidth};
  for (const d of document.querySelectorAll("details")) {
    const lane = d.querySelector(".lane").getBoundingClientRect(), bar = d.querySelector(".lane i").getBoundingClientRect();
    const list = d.querySelector("dl"), closed = list.checkVisibility();
    d.querySelector("summary").click();
    seen.Spans.push({
      Name: d.querySelector(".name").firstChild.textContent, Failed: getComputedStyle(d.querySelector(".lane i")).backgroundColor === "rgb(220, 38, 38)",
      Left: (bar.left - lane.left) / lane.width, Right: (bar.right - lane.left) / lane.width, Height: bar.height,
      ShownClosed: closed, ShownOpen: list.checkVisibility() && list.getBoundingClientRect().height > 0, Text: list.innerText,
    });
  }
  for (const a of document.querySelectorAll("a")) {
    if (!document.getElementById(a.getAttribute("href").slice(1))) seen.DeadLinks.push(a.href);
  }
  const pre = document.createElement("pre");
  pre.id = "seen";
  pre.textContent = JSON.stringify(seen);
  document.body.append(pre);
});
</script>`

type layout struct {
	Spans []struct {
		Name, Text                     string
		Failed, ShownClosed, ShownOpen bool
		Left, Right, Height            float64
	}
	DeadLinks, Requests []string
	Overflows           bool
}

// render opens the page in the browser.
func render(t *testing.T, page string) layout {
	t.Helper()
	browser := os.Getenv(envBrowser)
	if browser == "" {
		t.Skip("run `make page-test`, which installs a browser and sets " + envBrowser)
	}
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, []byte(page+probe), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), browser, "--no-sandbox", "--disable-gpu", "--window-size=1200,800", "--dump-dom", "file://"+path).Output()
	if err != nil {
		t.Fatalf("%s: %v", browser, err)
	}
	match := regexp.MustCompile(`(?s)<pre id="seen">(.*)</pre>`).FindSubmatch(out)
	if match == nil {
		t.Fatalf("the browser did not get to the end of the page:\n%s", out)
	}
	var seen layout
	if err := json.Unmarshal([]byte(html.UnescapeString(string(match[1]))), &seen); err != nil {
		t.Fatal(err)
	}
	return seen
}

func TestPageIsLaidOutInABrowser(t *testing.T) {
	traces := Traces(read(recorded(t).GetResourceSpans()))
	var out strings.Builder
	if err := WritePage(&out, "A volume's <life>", traces); err != nil {
		t.Fatal(err)
	}
	seen := render(t, out.String())
	if len(seen.DeadLinks) > 0 || len(seen.Requests) > 0 || seen.Overflows {
		t.Errorf("dead links %v, requests %v, wider than the window: %t", seen.DeadLinks, seen.Requests, seen.Overflows)
	}
	i := 0
	for _, trace := range traces {
		begin, length := trace.extent()
		trace.Walk(func(span *Span, _ int) {
			if i >= len(seen.Spans) {
				t.Fatalf("%d spans on the page", len(seen.Spans))
			}
			got := seen.Spans[i]
			i++
			if got.Name != span.Name+" " || got.Failed != span.Failed || got.ShownClosed || !got.ShownOpen || got.Height < 8 {
				t.Errorf("span %s: %+v", span.Name, got)
			}
			// A bar is at least two pixels wide.
			const pixels = 0.005
			left := float64(span.Start.Sub(begin)) / float64(length)
			right := left + float64(span.Duration())/float64(length)
			if abs(got.Left-left) > pixels || abs(got.Right-right) > pixels {
				t.Errorf("span %s is drawn from %.3f to %.3f, want %.3f to %.3f", span.Name, got.Left, got.Right, left, right)
			}
			for _, a := range span.Attributes {
				if !strings.Contains(got.Text, a.Value) {
					t.Errorf("span %s does not show %s=%s", span.Name, a.Key, a.Value)
				}
			}
			if span.Failed && !strings.Contains(got.Text, span.Failure) {
				t.Errorf("span %s does not show why it failed: %s", span.Name, span.Failure)
			}
		})
	}
	if i != len(seen.Spans) {
		t.Errorf("%d spans on the page, want %d", len(seen.Spans), i)
	}
}

func abs(x float64) float64 { return max(x, -x) }
