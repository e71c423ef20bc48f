package repo

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// page is a document of the repository.
type page struct {
	anchors, links []string
	// code is what is set as code, in the text and in blocks.
	code []string
}

// read finds the links, headings and code of a document.
func read(t *testing.T, path string) page {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var p page
	markdown := goldmark.New(goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	err = ast.Walk(markdown.Parser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			p.links = append(p.links, string(n.Destination))
		case *ast.Image:
			p.links = append(p.links, string(n.Destination))
		case *ast.Text:
			if n.Parent().Kind() == ast.KindCodeSpan {
				p.code = append(p.code, string(n.Value(source)))
			}
		case *ast.FencedCodeBlock:
			p.code = append(p.code, string(n.Lines().Value(source)))
		case *ast.Heading:
			if id, ok := n.AttributeString("id"); ok {
				p.anchors = append(p.anchors, string(id.([]byte)))
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// documents reads all of the repository, by their paths.
func documents(t *testing.T, root string) map[string]page {
	t.Helper()
	pages := map[string]page{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (slices.Contains([]string{"bin", "dist", "testdata"}, entry.Name()) || strings.HasPrefix(entry.Name(), ".") && path != root):
			return filepath.SkipDir
		case filepath.Ext(path) == ".md":
			pages[path] = read(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// TestLinksOfDocumentsLead: each relative link of a document names a file or folder of
// the repository, and a heading of it if it has an anchor.
func TestLinksOfDocumentsLead(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	pages, checked := documents(t, root), 0
	for path, p := range pages {
		for _, link := range p.links {
			to, err := url.Parse(link)
			if err != nil || to.Scheme != "" {
				continue // the world outside changes without us
			}
			checked++
			target := path
			if to.Path != "" {
				target = filepath.Join(filepath.Dir(path), filepath.FromSlash(to.Path))
			}
			from, _ := filepath.Rel(root, path)
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link %s leads nowhere", from, link)
			} else if to.Fragment != "" && !slices.Contains(pages[target].anchors, to.Fragment) {
				t.Errorf("%s: link %s: no such heading; there are %q", from, link, pages[target].anchors)
			}
		}
	}
	if checked < 20 {
		t.Errorf("%d links were checked: the documents were not found", checked)
	}
}
