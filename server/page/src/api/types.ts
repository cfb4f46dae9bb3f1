// The parts of requests and answers in api/openapi.yaml that the page uses.

/** Sizes and information of a text. */
export interface Measures {
  bytes: number;
  tokens: number;
  bits: number;
  bits_per_byte?: number;
  baseline_bits?: number;
}

export interface Settings {
  method: string;
  chunk: number;
  companion: boolean;
  baseline: boolean;
  [name: string]: unknown;
}

export interface Session {
  id: string;
  name?: string;
  model?: string;
  created_at?: string;
  last_used_at?: string;
  offset: number;
  step: number;
  totals: Measures;
  memory_bytes: number;
  disk_bytes: number;
  settings?: Settings;
  seed: number;
  labels?: Record<string, string>;
  ttl_seconds: number;
  parent?: { id: string; offset: number };
  shadow_of?: Shadow;
  shadows?: Shadow[];
  error?: string;
}

/** The relation between a session and a shadow of it; id, name and model are the other's. */
export interface Shadow {
  id: string;
  name?: string;
  model?: string;
  offset: number;
  behind_bytes: number;
  compared?: {
    offset: number;
    session_bits_per_byte?: number;
    shadow_bits_per_byte?: number;
    difference?: number;
  };
  error?: string;
}

export interface SessionRequest {
  model?: string;
  shadow_of?: string;
  settings?: Partial<Settings>;
  labels?: Record<string, string>;
  ttl_seconds?: number;
}

export interface ForkRequest {
  at_offset?: number;
  name?: string;
  labels?: Record<string, string>;
  ttl_seconds?: number;
}

export interface Model {
  id: string;
  name: string;
  tokenizer: "bytes" | "words";
  defaults: Settings;
  session_bytes: number;
}

/** A possible token at a place; with its text for a model of words. */
export interface Candidate {
  token: number;
  text?: string;
  logprob: number;
}

/** The first event of a watched session. */
export interface StartEvent {
  type: "start";
  lines_from?: number;
}

export interface ChunkEvent extends Measures {
  type: "chunk";
  offset: number;
  totals: Measures;
  network_bits?: number; // without the companion; only for a session with one
  logprobs?: number[];
  baseline_logprobs?: number[];
  token_bytes?: number[];
  pending_bytes?: number; // accepted after this event's bytes; only for a model of words
  top_logprobs?: Candidate[][];
  baseline_top_logprobs?: Candidate[][];
  text?: string;
  text_base64?: string;
}

/** The norms of a weight's fast weights, and of their last change. */
export interface Branch {
  name: string;
  elements: number;
  norm: number;
  change: number;
  banks?: { norm: number; change: number }[];
}

export interface UpdateEvent {
  type: "update";
  offset: number;
  step: number;
  written: number;
  branches: Branch[];
}

/** Why a line is strange: its strangest word or value, and the usual ones at that place. */
export interface LineWhy {
  before: string;
  token: string;
  usual: string[];
  lines?: number; // earlier lines with the token; only if it is rare everywhere
}

/** A user's verdict on an incident. */
export type Verdict = "false_alarm" | "matters";

/** A change in number. */
export interface IncidentChange {
  kind:
    | "surge"
    | "novelty"
    | "number"
    | "silence"
    | "drift"
    | "empty"
    | "field"
    | "missing"
    | "format";
  line: number;
  first: number;
  evidence: string;
}

/** Related strange lines and changes in number. */
export interface Incident {
  number: number;
  state: "open" | "closed" | "stays";
  first: number;
  last: number;
  offset: number;
  lines: number;
  p: number;
  rank: number;
  why?: LineWhy;
  samples: string[];
  changes?: IncidentChange[];
  verdict?: Verdict;
}

export interface IncidentList {
  incidents: Incident[];
}

export interface LineEvent {
  type: "line";
  number: number;
  offset: number;
  bytes: number;
  rank: number;
  warm: boolean;
  span: { from: number; to: number }; // its strangest word or value
  why?: LineWhy;
  incidents?: Incident[]; // opened, joined or closed by the line
  ended: boolean;
}

/** Text whose events a reader has missed. */
export interface GapEvent {
  type: "gap";
  from: number;
  to: number;
}

export interface SummaryEvent extends Measures {
  type: "summary";
  offset: number;
  totals: Measures;
}

export interface ErrorEvent {
  type: "error";
  problem: Problem;
}

export type StreamEvent =
  | StartEvent
  | ChunkEvent
  | UpdateEvent
  | LineEvent
  | GapEvent
  | SummaryEvent
  | ErrorEvent;

/** The bits of past text in pieces. */
export interface PastScores {
  scores: { offset: number; bytes: number; tokens: number; bits: number; baseline_bits?: number }[];
}

/** A problem document (RFC 9457). */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail?: string;
  field?: string;
  found?: string;
  expected?: string;
  offset?: number; // of the session
}
