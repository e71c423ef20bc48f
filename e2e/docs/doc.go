// Package docs checks what the pages of docs tell people to type: that targets,
// commands, flags, files, values and kinds which they name exist. It runs none of it.
// What manifests say is checked against an API server in package apiserver.
//
// It holds tests alone; make docs-test runs both.
package docs
