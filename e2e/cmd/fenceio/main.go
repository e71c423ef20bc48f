// Command fenceio connects hosts to volumes and writes numbered blocks in the
// lab's guests. See package fenceio.
package main

import (
	"context"
	"os"

	"github.com/distort-io/distort/e2e/internal/fenceio"
)

func main() {
	os.Exit(fenceio.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
