// Package oci writes container images as OCI image layouts in a tar file, the
// form that containerd imports without a registry. Equal input gives equal
// bytes: entries are sorted and carry no time and no owner but root.
package oci

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// Entry is a directory, file or symbolic link in a layer.
type Entry struct {
	// Path in the image, with or without a leading slash.
	Path string
	// Mode is the permission bits; 0 means 0755, or 0777 for a link.
	Mode int64
	// Source is the host's file with the content of a regular file.
	Source string
	// Content is that of a regular file without Source.
	Content string
	// Link is the target of a symbolic link.
	Link string
	// Dir makes the entry a directory.
	Dir bool
}

// Layer is an uncompressed layer in a file of the host.
type Layer struct {
	// Path of the tar file.
	Path string
	// Digest is "sha256:" and the hash of the file.
	Digest string
	// Size is that of the file in bytes.
	Size int64
}

// BuildLayer writes the entries to a tar file. Directories above an entry are
// added where they are not given.
func BuildLayer(file string, entries []Entry) (Layer, error) {
	out, err := os.Create(file)
	if err != nil {
		return Layer{}, fmt.Errorf("write layer: %w", err)
	}
	defer out.Close()
	archive := tar.NewWriter(out)
	for _, entry := range complete(entries) {
		if err := writeEntry(archive, entry); err != nil {
			return Layer{}, fmt.Errorf("write layer: %s: %w", entry.Path, err)
		}
	}
	if err := archive.Close(); err != nil {
		return Layer{}, fmt.Errorf("write layer: %w", err)
	}
	if err := out.Close(); err != nil {
		return Layer{}, fmt.Errorf("write layer: %w", err)
	}
	return OpenLayer(file)
}

// OpenLayer describes a layer that was written before.
func OpenLayer(file string) (Layer, error) {
	in, err := os.Open(file)
	if err != nil {
		return Layer{}, fmt.Errorf("read layer: %w", err)
	}
	defer in.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, in)
	if err != nil {
		return Layer{}, fmt.Errorf("read layer: %w", err)
	}
	return Layer{Path: file, Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)), Size: size}, nil
}

// complete cleans paths, adds missing directories, and sorts parents first. Of
// two entries with one path the last wins.
func complete(entries []Entry) []Entry {
	byPath := map[string]Entry{}
	for _, entry := range entries {
		entry.Path = strings.TrimPrefix(path.Clean("/"+entry.Path), "/")
		byPath[entry.Path] = entry
	}
	for name := range byPath {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, ok := byPath[dir]; !ok {
				byPath[dir] = Entry{Path: dir, Dir: true}
			}
		}
	}
	all := make([]Entry, 0, len(byPath))
	for _, entry := range byPath {
		all = append(all, entry)
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return all
}

func writeEntry(archive *tar.Writer, entry Entry) error {
	header := &tar.Header{Name: entry.Path, Mode: entry.Mode, Format: tar.FormatPAX}
	if header.Mode == 0 {
		header.Mode = 0o755
	}
	switch {
	case entry.Dir:
		header.Typeflag, header.Name = tar.TypeDir, entry.Path+"/"
		return archive.WriteHeader(header)
	case entry.Link != "":
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, entry.Link, 0o777
		return archive.WriteHeader(header)
	case entry.Source == "":
		header.Typeflag, header.Size = tar.TypeReg, int64(len(entry.Content))
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := io.WriteString(archive, entry.Content)
		return err
	}
	source, err := os.Open(entry.Source)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, source)
	return err
}
