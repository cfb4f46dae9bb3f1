export CGO_ENABLED ?= 0
GO ?= go

.PHONY: build demo test test-long race generate check fuzz model clean

build: ## the binary
	$(GO) build -o bin/lmserve ./cmd/lmserve

demo: build ## a server, a text streamed through a session, completions before and after
	$(GO) run ./internal/demo -lmserve bin/lmserve

test: ## everything that takes minutes
	$(GO) test ./...

race: ## the same under the race detector (needs cgo)
	CGO_ENABLED=1 $(GO) test -race ./...

test-long: race fuzz ## more: race detector, fuzzing, properties with more draws
	$(GO) test ./... -count=1 -rapid.checks=1000

fuzz:
	./internal/fuzz.sh 30s

generate: ## code from api/openapi.yaml
	$(GO) generate ./...

check: ## formatting and vet
	@test -z "$$(gofmt -l .)" || { echo "not formatted:"; gofmt -l .; exit 1; }
	$(GO) vet ./...

clean:
	rm -rf bin
