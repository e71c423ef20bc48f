package bundle

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/distort-io/distort/modules/manager/internal/redact"
)

// root is the folder in the archive.
const root = "distort-support"

// archive is a tar.gz in the making. Its first error ends it.
type archive struct {
	zip   *gzip.Writer
	tar   *tar.Writer
	now   time.Time
	names []string
	err   error
}

func newArchive(w io.Writer, now time.Time) *archive {
	zip := gzip.NewWriter(w)
	return &archive{zip: zip, tar: tar.NewWriter(zip), now: now}
}

// add writes a file as it is; all other methods come here.
func (a *archive) add(name string, content []byte) {
	if a.err != nil {
		return
	}
	header := &tar.Header{Name: path.Join(root, name), Mode: 0o600, Size: int64(len(content)), ModTime: a.now, Format: tar.FormatPAX}
	if a.err = a.tar.WriteHeader(header); a.err == nil {
		_, a.err = a.tar.Write(content)
	}
	a.names = append(a.names, name)
}

// text writes a text without secrets.
func (a *archive) text(name, content string) { a.add(name, []byte(redact.Text(content))) }

// json writes a value without secrets.
func (a *archive) json(name string, value any) {
	if a.err != nil {
		return
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		a.err = fmt.Errorf("encode %s: %w", name, err)
		return
	}
	var decoded map[string]any
	if a.err = json.Unmarshal(encoded, &decoded); a.err != nil {
		return
	}
	redact.Object(decoded)
	a.indented(name, decoded)
}

// objects writes a list of objects without secrets.
func (a *archive) objects(name string, objects []runtime.Object) {
	items := make([]any, 0, len(objects))
	for _, o := range objects {
		decoded, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			a.err = errors.Join(a.err, fmt.Errorf("encode %s: %w", name, err))
			return
		}
		redact.Object(decoded)
		decoded["kind"] = reflect.TypeOf(o).Elem().Name() // which items of a typed list lack
		items = append(items, decoded)
	}
	a.indented(name, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
}

func (a *archive) indented(name string, value any) {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil && a.err == nil {
		a.err = fmt.Errorf("encode %s: %w", name, err)
	}
	a.add(name, append(content, '\n'))
}

// close ends the archive.
func (a *archive) close() error {
	for _, end := range []func() error{a.tar.Close, a.zip.Close} {
		if err := end(); a.err == nil {
			a.err = err
		}
	}
	if a.err != nil {
		return fmt.Errorf("write the archive: %w", a.err)
	}
	return nil
}
