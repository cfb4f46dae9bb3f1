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

# TARGETS are the other systems that the product is built for.
TARGETS = linux/arm64 darwin/arm64 windows/amd64

# KERNELS are the packages with kernels, or with loops of their own beside them. GOLDENS are the
# packages that replay reference numbers, and GOLDEN matches these tests of theirs.
KERNELS = ./internal/arithmetic/kernel ./txl ./sparsemeta ./internal/arithmetic/companion ./internal/arithmetic/stream ./internal/arithmetic/lines
GOLDENS = ./internal/lab/conformance ./internal/serving/session
GOLDEN = Golden|Shipped|Reference

# ARITHMETIC are the packages that compute. Of these, THREADED use threads or locks; their fast tests
# start all of them. ATTACKS is what test-attack runs.
THREADED = ./txl ./sparsemeta/... ./internal/arithmetic/kernel ./internal/arithmetic/stream ./internal/arithmetic/model \
	./internal/learning/checkpoint ./internal/lab/conformance ./internal/learning/train/... ./internal/lab/bench
ARITHMETIC = $(THREADED) ./tokenizer ./weights ./internal/arithmetic/companion ./internal/arithmetic/lines \
	./internal/arithmetic/compress ./internal/lab/eval ./internal/lab/tune ./internal/lab/chart ./internal/lab/linebench
ATTACKS = ./internal/e2e/crash

# Packages run side by side, three on two cores as many of their tests wait; those that take longest
# (LONG) begin first, so that none of them is left for the end.
LONG = ./server ./internal/serving/session ./internal/serving/storage/folder ./cmd/lmserve ./api/client
SIDE_BY_SIDE = -p $$(($$(nproc 2>/dev/null || echo 2) + 1))
TIMEOUT = 30m
QEMU ?= $(shell command -v qemu-aarch64-static || command -v qemu-aarch64)

# How often a server is killed, at how many moments of each recorded run the power is cut, of how
# many bits of a database and its snapshots one is turned round, and how long all that may take.
CRASH_ROUNDS ?= 50
POWER_CUTS ?= 40
ATTACK_TIMEOUT ?= 2h

.PHONY: help build test-ship words page demo pictures default-model swift-model words-model bench quick test test-noasm \
	test-arithmetic test-arm64 test-portable race race-short nightly test-attack test-long test-page \
	test-docs test-openai test-experiments test-clients test-postgres test-clouds release test-release fuzz \
	generate check cross lint vulnerabilities clean

help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 18

build: ## build bin/lmserve
	$(GO) build -o bin/lmserve ./cmd/lmserve

words: ## put the model of words beside bin/lmserve, where --model words finds it
	@mkdir -p bin
	cp packaging/models/words.safetensors.zst bin/

page: ## build the web page, server/page/dist, from its sources (needs node 20 or later, npm and the network)
	npm ci --prefix server/page --ignore-scripts --no-audit --no-fund --loglevel error
	npm run --prefix server/page build

demo: build ## show a server that reads three texts, in a browser and in the terminal
	@$(GO) build -o bin/demo ./internal/lab/demo && exec bin/demo -lmserve bin/lmserve

pictures: build ## render the documentation's pictures of the page again (needs Chromium)
	mkdir -p docs/pictures
	LMSERVE_PICTURES=$(CURDIR)/docs/pictures $(GO) test ./internal/lab/demo -run Pictures -count=1 -timeout 1h

default-model: build ## make the embedded model again, in WORK, with TEXT=DIR MORE=DIR VALID=DIR WORK=DIR (over a day)
	@test -n "$(TEXT)" -a -n "$(MORE)" -a -n "$(VALID)" -a -n "$(WORK)" || { echo "expected: make default-model TEXT=DIR MORE=DIR VALID=DIR WORK=DIR"; exit 2; }
	sh weights/recipe/make.sh bin/lmserve "$(TEXT)" "$(MORE)" "$(VALID)" "$(WORK)"

swift-model: build ## make the embedded model for streams again, in WORK, with TEXT=DIR MORE=DIR VALID=DIR WORK=DIR (hours)
	@test -n "$(TEXT)" -a -n "$(MORE)" -a -n "$(VALID)" -a -n "$(WORK)" || { echo "expected: make swift-model TEXT=DIR MORE=DIR VALID=DIR WORK=DIR"; exit 2; }
	sh weights/recipe/swift/make.sh bin/lmserve "$(TEXT)" "$(MORE)" "$(VALID)" "$(WORK)"

words-model: build ## make the model of words again, in WORK, with TEXT=DIR VALID=DIR WORK=DIR (hours)
	@test -n "$(TEXT)" -a -n "$(VALID)" -a -n "$(WORK)" || { echo "expected: make words-model TEXT=DIR VALID=DIR WORK=DIR"; exit 2; }
	sh weights/recipe/words/make.sh bin/lmserve "$(TEXT)" "$(VALID)" "$(WORK)"

bench: build ## measure speed against this machine's limits, and products against OpenBLAS if it is installed
	bin/lmserve bench
	@if pkg-config --exists openblas; \
	then cd internal/arithmetic/kernel/_openblas && CGO_ENABLED=1 $(GO) run .; \
	else echo "products not compared with OpenBLAS: pkg-config finds no openblas (libopenblas-dev)"; fi

quick: ## run quick checks in under a minute: formatting, vet, fast tests
	@began=$$(date +%s); $(MAKE) --no-print-directory check && $(GO) test -short ./...; code=$$?; \
	echo "quick: $$(($$(date +%s) - began)) seconds"; exit $$code

test: ## run all tests but those of the targets test-*, in under five minutes
	@began=$$(date +%s); $(GO) test $(SIDE_BY_SIDE) -timeout $(TIMEOUT) $(LONG) ./...; code=$$?; \
	echo "test: $$(($$(date +%s) - began)) seconds"; exit $$code

test-arithmetic: ## run all tests of ARITHMETIC, and those of memory that the race detector cannot run
	$(GO) test -timeout $(TIMEOUT) $(ARITHMETIC)
	$(GO) test -timeout $(TIMEOUT) ./internal/serving/session ./server -run Memory

test-noasm: ## run the tests of KERNELS and GOLDENS with portable Go instead of assembly
	$(GO) test -tags noasm -short -timeout $(TIMEOUT) $(KERNELS)
	$(GO) test -tags noasm -timeout $(TIMEOUT) $(GOLDENS) -run '$(GOLDEN)'
	$(GO) test -tags noasm -timeout $(TIMEOUT) ./cmd/lmserve -run FoldersOfOlderPrograms

# EMULATED runs tests on arm64, in qemu-user if this machine is another one.
ifneq ($(shell $(GO) env GOHOSTARCH),arm64)
EMULATED = GOOS=linux GOARCH=arm64 $(GO) test -exec $(QEMU)
else
EMULATED = $(GO) test
QEMU = none needed
endif

test-arm64: ## find fused products, and run fast tests of kernels and GOLDENS, on arm64 or emulated
	LMSERVE_TEST_FUSION=1 $(GO) test ./internal -count=1 -run Fused
ifneq ($(QEMU),)
	$(EMULATED) -short -vet off -timeout $(TIMEOUT) ./internal/arithmetic/kernel ./sparsemeta ./internal/arithmetic/companion \
	  ./internal/arithmetic/lines
	$(EMULATED) -short -vet off -timeout $(TIMEOUT) ./txl ./internal/arithmetic/stream $(GOLDENS) -run '$(GOLDEN)'
else
	@echo "arm64 not tested: there is no qemu-aarch64 (qemu-user-static)"; test "$(CI)" != true
endif

test-portable: ## run all tests of KERNELS on arm64, and all fast tests with portable Go (many minutes)
	$(EMULATED) -short -timeout $(TIMEOUT) $(KERNELS)
	$(GO) test -tags noasm -timeout $(TIMEOUT) $(KERNELS)
	$(GO) test -tags noasm -short -timeout $(TIMEOUT) ./...

test-page: ## test the web page in a headless Chromium (needs chromium; minutes)
	@command -v chromium >/dev/null || { echo "the page not used: there is no chromium"; exit 0; }; \
	LMSERVE_TEST_PAGE=1 $(GO) test ./server -run '^TestPage' -count=1 -v -timeout 20m

test-docs: ## run the commands of README.md and docs, and compare their output (minutes)
	LMSERVE_TEST_DOCS=1 $(GO) test ./docs -count=1 -timeout 40m

test-ship: ## build an OpenTelemetry collector, and feed sessions by it and by syslog-ng (needs the network)
	LMSERVE_TEST_SHIPPERS=1 $(GO) test ./internal/e2e/ship -count=1

test-experiments: ## run the tests of the papers' experiments, which are a separate module
	cd experiments && $(GO) vet ./... && $(GO) test ./...

test-openai: ## run OpenAI's own client against a running server (needs node 20 or later, npm and the network)
	@node=$$(node -p 'parseInt(process.versions.node)' 2>/dev/null); \
	if [ "$${node:-0}" -lt 20 ] || ! command -v npm >/dev/null; then \
	  echo "OpenAI's client not run: it needs node 20 or later, and npm; node is: $${node:-none}"; exit 0; fi; \
	npm ci --prefix server/testdata/openai --ignore-scripts --no-audit --no-fund --loglevel error && \
	LMSERVE_TEST_OPENAI=1 $(GO) test ./server ./examples -run '^TestOpenAIsOwnClient' -count=1 -v

test-clients: ## compile clients generated from the contract and run them (needs node 20 or later, npm and the network)
	@node=$$(node -p 'parseInt(process.versions.node)' 2>/dev/null); \
	if [ "$${node:-0}" -lt 20 ] || ! command -v npm >/dev/null; then \
	  echo "generated clients not run: they need node 20 or later, and npm; node is: $${node:-none}"; exit 0; fi; \
	npm ci --prefix server/testdata/clients --ignore-scripts --no-audit --no-fund --loglevel error && \
	LMSERVE_TEST_CLIENTS=1 $(GO) test ./server -run '^TestGeneratedClients' -count=1 -v

test-postgres: ## run the tests of sessions in a database (needs PostgreSQL's programs; minutes)
	LMSERVE_TEST_POSTGRES=1 $(GO) test -tags s3 ./internal/serving/storage/postgres/... -count=1 -timeout 40m
	LMSERVE_TEST_POSTGRES=1 $(GO) test ./internal/serving/session -run 'Server' -count=1 -timeout 40m
	LMSERVE_TEST_POSTGRES=1 $(GO) test ./internal/e2e/cluster -count=1 -timeout 40m

race: ## run all tests under the race detector (needs a C compiler; many minutes)
	CGO_ENABLED=1 $(GO) test -race $(SIDE_BY_SIDE) -timeout 40m $(LONG) ./...

race-short: ## run the race detector over all tests but slow arithmetic and ATTACKS (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -vet off $(SIDE_BY_SIDE) -timeout 40m $(LONG) \
	  $$($(GO) list ./... | grep -vxF "$$($(GO) list $(ARITHMETIC) $(ATTACKS))")
	CGO_ENABLED=1 $(GO) test -race -vet off -short -timeout 40m $(THREADED)

nightly: ## run .ci/run and the checks that it omits to save time (more than an hour)
	.ci/run nightly

test-attack: ## kill a server, cut the power and damage every file: CRASH_ROUNDS=N POWER_CUTS=N
	LMSERVE_CRASH_ROUNDS=$(CRASH_ROUNDS) LMSERVE_POWER_CUTS=$(POWER_CUTS) $(GO) test ./internal/e2e/crash \
	  -count=1 -v -timeout $(ATTACK_TIMEOUT)
	LMSERVE_POWER_CUTS=$(POWER_CUTS) $(GO) test ./internal/serving/storage/folder \
	  -run "PowerCut|Unsynced|FailedSync|Flipped|Torn|Rescue" -count=1 -timeout $(ATTACK_TIMEOUT)

test-long: race fuzz ## run the race detector, all fuzz targets, tests with ten times the draws, the long attack
	LMSERVE_TEST_LONG=1 $(GO) test -count=1 -timeout 2h $(RAPID) -rapid.checks=1000
	$(MAKE) test-attack CRASH_ROUNDS=1000 POWER_CUTS=1000 ATTACK_TIMEOUT=12h
	LMSERVE_TEST_POSTGRES=1 LMSERVE_CLUSTER_ROUNDS=1000 $(GO) test ./internal/e2e/cluster \
	  -run '^TestSharedSessionsSurvive' -count=1 -v -timeout 12h

# RELEASE are the machines that a release is for. Its tools are a module of their own, in packaging.
RELEASE = linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64

release: ## make dist/: archives, packages, images, lists of components, checksums, for RELEASE
	cd packaging && $(GO) run . -source .. -out ../dist -targets "$(RELEASE)"

test-release: ## make a release for one machine twice, install the module, read the manifests (minutes)
	cd packaging && $(GO) vet ./... && $(GO) test -count=1 -timeout 40m ./...
	cd tools/clustersim && $(GO) vet . && $(GO) test -count=1 .

fuzz: ## run every fuzz target for FUZZTIME
	@for target in $(FUZZ); do \
	  dir=$$(dirname $$(grep -rl --include='*_test.go' "func $$target(" .)); \
	  echo "$$dir $$target"; \
	  $(GO) test $$dir -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) || exit 1; \
	done

generate: ## update generated files: contract, docs, code from the contract, assembly
	$(GO) generate ./...

check: ## check formatting and run go vet
	@test -z "$$(gofmt -l .)" || { echo "not formatted:"; gofmt -l .; exit 1; }
	$(GO) vet ./...

cross: ## build and vet for the systems of TARGETS, without cgo
	@for target in $(TARGETS); do \
	  echo "$$target"; \
	  export CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/}; \
	  $(GO) build -tags s3 -o /dev/null ./cmd/lmserve && $(GO) vet -tags s3 ./... || exit 1; \
	done

test-clouds: ## build and test with -tags clouds, for object stores of Google and Azure
	$(GO) test -tags clouds ./internal/serving/storage/postgres -run OtherClouds

lint: ## run staticcheck, and list functions that no program and no test reaches
	$(GO) run $(STATICCHECK) -tags s3 ./...
	@dead=$$($(GO) run $(DEADCODE) -tags s3 -test ./...) || exit 1; \
	test -z "$$dead" || { echo "not reached:"; echo "$$dead"; exit 1; }

vulnerabilities: ## list known vulnerabilities that the code reaches, if their database can be reached
	@found=$$($(GO) run $(GOVULNCHECK) -tags s3 ./... 2>&1); code=$$?; echo "$$found"; \
	case "$$found" in *"govulncheck: fetching vulnerabilities:"*) \
	  echo "skipped: the database of vulnerabilities cannot be reached from here"; exit 0;; esac; \
	exit $$code

clean: ## remove what was built
	rm -rf bin dist
