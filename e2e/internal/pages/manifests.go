package pages

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Manifest is an object of Kubernetes that a document shows.
type Manifest struct {
	// Position is where its block begins.
	Position string
	Object   *unstructured.Unstructured
}

// Manifests are the objects of a document: in blocks of YAML, and in the here-documents
// of blocks of shell. YAML without apiVersion and kind, such as values of the chart, is
// left out.
func (p Page) Manifests() ([]Manifest, error) {
	var found []Manifest
	for _, b := range p.Blocks {
		var texts []string
		switch b.Language {
		case "yaml":
			texts = []string{b.Text}
		case "", "sh":
			if !strings.Contains(b.Text, "<<") {
				continue
			}
			commands, err := b.Commands()
			if err != nil {
				return nil, err
			}
			for _, c := range commands {
				texts = append(texts, c.Input)
			}
		}
		for _, text := range texts {
			objects, err := objectsOf(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", b.Position(), err)
			}
			for _, o := range objects {
				found = append(found, Manifest{Position: b.Position(), Object: o})
			}
		}
	}
	return found, nil
}

func objectsOf(text string) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &o.Object); err != nil {
			return nil, err
		}
		if o.GetAPIVersion() != "" && o.GetKind() != "" {
			found = append(found, o)
		}
	}
}
