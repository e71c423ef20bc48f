module github.com/distort-io/distort/hack/tools

go 1.26.0

require (
	github.com/spf13/cobra v1.10.2
	golang.org/x/mod v0.43.0
)
