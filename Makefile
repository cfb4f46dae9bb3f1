export CGO_ENABLED ?= 0
GO ?= go

FUZZTIME ?= 30s
FUZZ = $(shell grep -rho --include='*_test.go' 'func Fuzz[A-Za-z0-9]*' . | sort -u | sed 's/func //')
RAPID = $(shell grep -rl --include='*_test.go' pgregory.net/rapid . | xargs -n1 dirname | sort -u)

# Programs that check the code, at exact versions. They are built apart from the product: its go.mod
# knows nothing of them.
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE = golang.org/x/tools/cmd/deadcode@v0.52.0
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.8.0

# Other machines that the product is built for, and what computes there: these packages are also
# run on arm64, elsewhere than there in an emulator.
TARGETS = linux/arm64 darwin/arm64 windows/amd64
KERNELS = ./internal/kernel ./txl ./sparsemeta ./internal/stream
QEMU ?= $(shell command -v qemu-aarch64-static || command -v qemu-aarch64)

# How often a server is killed, and how long that may take.
CRASH_ROUNDS ?= 50
CRASH_TIMEOUT ?= 2h

.PHONY: help build demo default-model bench quick test test-noasm test-arm64 race test-crash test-long \
	fuzz generate check cross lint vulnerabilities clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 18

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

quick: ## while one works: formatting, vet and the tests that are fast, under a minute
	@began=$$(date +%s); $(MAKE) --no-print-directory check && $(GO) test -short ./...; code=$$?; \
	echo "quick: $$(($$(date +%s) - began)) seconds"; exit $$code

test: ## all tests, a few minutes
	$(GO) test ./...

test-noasm: ## with portable Go instead of assembly, the fast tests, and all tests of what computes
	$(GO) test -tags noasm -short -timeout 20m ./...
	$(GO) test -tags noasm -timeout 20m $(KERNELS)

test-arm64: ## the fast tests of what computes, on arm64, emulated by qemu-user where that is another machine
ifeq ($(shell $(GO) env GOHOSTARCH),arm64)
	$(GO) test -short $(KERNELS)
else ifneq ($(QEMU),)
	GOOS=linux GOARCH=arm64 $(GO) test -short -timeout 20m -exec $(QEMU) $(KERNELS)
else
	@echo "arm64 not tested: there is no qemu-aarch64 (qemu-user-static)"; test "$(CI)" != true
endif

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

cross: ## build and vet for the other machines, without cgo
	@for target in $(TARGETS); do \
	  echo "$$target"; \
	  export CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/}; \
	  $(GO) build -o /dev/null ./cmd/lmserve && $(GO) vet ./... || exit 1; \
	done

lint: ## what staticcheck finds, and functions that no program and no test reaches
	$(GO) run $(STATICCHECK) ./...
	@dead=$$($(GO) run $(DEADCODE) -test ./...) || exit 1; \
	test -z "$$dead" || { echo "not reached:"; echo "$$dead"; exit 1; }

vulnerabilities: ## known ones that the code reaches; skipped where their database cannot be reached
	@found=$$($(GO) run $(GOVULNCHECK) ./... 2>&1); code=$$?; echo "$$found"; \
	case "$$found" in *"govulncheck: fetching vulnerabilities:"*) \
	  echo "skipped: the database of vulnerabilities cannot be reached from here"; exit 0;; esac; \
	exit $$code

clean: ## remove what was built
	rm -rf bin
