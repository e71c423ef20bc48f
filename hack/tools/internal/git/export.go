package git

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Export writes the files of a revision into a folder.
func (r Repo) Export(ctx context.Context, revision, into string) error {
	archive := filepath.Join(into, ".export.tar")
	if _, err := r.run(ctx, "archive", "--format=tar", "--output="+archive, revision); err != nil {
		return err
	}
	in, err := os.Open(archive)
	if err != nil {
		return err
	}
	if err := errors.Join(unpack(in, into), in.Close()); err != nil {
		return fmt.Errorf("files of %s: %w", revision, err)
	}
	return os.Remove(archive)
}

func unpack(in io.Reader, into string) error {
	for files := tar.NewReader(in); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(strings.TrimSuffix(header.Name, "/")) {
			return fmt.Errorf("%s: a file outside the folder", header.Name)
		}
		content, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		name := filepath.Join(into, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return err
		}
	}
}
