// Package pages reads the documents of the repository as tests need them: their
// headings, their blocks of code, and the manifests in these.
package pages

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// Page is a document.
type Page struct {
	// File is its path below the root of the repository.
	File string
	// Headings are its headings without their level, in order.
	Headings []string
	Blocks   []Block
}

// Block is a fenced block of code.
type Block struct {
	// File and Line are where its first line is.
	File string
	Line int
	// Language is the word behind the fence; empty when there is none.
	Language string
	Text     string
}

// Position is where a block begins.
func (b Block) Position() string { return fmt.Sprintf("%s:%d", b.File, b.Line) }

// Read reads a document of the repository at root.
func Read(root, file string) (Page, error) {
	source, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return Page{}, err
	}
	p := Page{File: file}
	err = ast.Walk(goldmark.New().Parser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			p.Headings = append(p.Headings, string(n.Lines().Value(source)))
		case *ast.FencedCodeBlock:
			b := Block{File: file, Language: string(n.Language(source)), Text: string(n.Lines().Value(source))}
			if n.Lines().Len() > 0 {
				b.Line = strings.Count(string(source[:n.Lines().At(0).Start]), "\n") + 1
			}
			p.Blocks = append(p.Blocks, b)
		}
		return ast.WalkContinue, nil
	})
	return p, err
}

// All reads every document below a folder of the repository at root, in the order of
// their paths.
func All(root, folder string) ([]Page, error) {
	var found []Page
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		file, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		p, err := Read(root, filepath.ToSlash(file))
		found = append(found, p)
		return err
	})
	slices.SortFunc(found, func(a, b Page) int { return strings.Compare(a.File, b.File) })
	return found, err
}
