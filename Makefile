export CGO_ENABLED ?= 0
GO ?= go

FUZZTIME ?= 30s
FUZZ = $(shell grep -rho --include='*_test.go' 'func Fuzz[A-Za-z0-9]*' . | sort -u | sed 's/func //')
RAPID = $(shell grep -rl --include='*_test.go' pgregory.net/rapid . | xargs -n1 dirname | sort -u)

# How often a server is killed, and how long that may take.
CRASH_ROUNDS ?= 50
CRASH_TIMEOUT ?= 2h

.PHONY: help build demo default-model bench test race test-crash test-long fuzz generate check clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 16

build: ## bin/lmserve
	$(GO) build -o bin/lmserve ./cmd/lmserve

demo: build ## a server, a log streamed through a session, completions before and after
	@$(GO) run ./internal/demo -lmserve bin/lmserve

default-model: build ## WORK/default.safetensors.zst as the embedded one was made, TEXT=DIR VALID=DIR WORK=DIR (many hours)
	@test -n "$(TEXT)" -a -n "$(VALID)" -a -n "$(WORK)" || { echo "expected: make default-model TEXT=DIR VALID=DIR WORK=DIR"; exit 2; }
	sh weights/recipe/make.sh bin/lmserve "$(TEXT)" "$(VALID)" "$(WORK)"

bench: build ## speed against this machine's limits, products also against OpenBLAS if libopenblas-dev is there
	bin/lmserve bench
	@if pkg-config --exists openblas; \
	then cd internal/kernel/_openblas && CGO_ENABLED=1 $(GO) run .; \
	else echo "products not compared with OpenBLAS: pkg-config finds no openblas (libopenblas-dev)"; fi

test: ## all tests, a few minutes
	$(GO) test ./...

race: ## all tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race ./...

test-crash: ## a server killed CRASH_ROUNDS times while clients feed it (LMSERVE_CRASH_SEED=N repeats the moments)
	LMSERVE_CRASH_ROUNDS=$(CRASH_ROUNDS) $(GO) test ./cmd/lmserve -run '^TestAServerThatIsKilledLosesNothing$$' -count=1 -v -timeout $(CRASH_TIMEOUT)

test-long: race fuzz ## race detector, every fuzz target, ten times the random draws, 1,000 crashes
	LMSERVE_TEST_LONG=1 $(GO) test -count=1 -timeout 2h $(RAPID) -rapid.checks=1000
	$(MAKE) test-crash CRASH_ROUNDS=1000

fuzz: ## every fuzz target for FUZZTIME
	@for target in $(FUZZ); do \
	  dir=$$(dirname $$(grep -rl --include='*_test.go' "func $$target(" .)); \
	  echo "$$dir $$target"; \
	  $(GO) test $$dir -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) || exit 1; \
	done

generate: ## contract and docs from the table of settings, code from api/openapi.yaml, assembly from internal/kernel/_generate
	$(GO) generate ./...

check: ## formatting and vet
	@test -z "$$(gofmt -l .)" || { echo "not formatted:"; gofmt -l .; exit 1; }
	$(GO) vet ./...

clean: ## remove what was built
	rm -rf bin
