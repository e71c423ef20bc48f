module github.com/distort-io/distort/modules/nvmeof

go 1.26.0
