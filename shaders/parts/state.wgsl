// The state buffer: everything that changes from token to token or from request to request, as words (floats as bits).
// The CPU writes the header once when a request starts; after that the sampler's second kernel alone writes it, so that
// tokens follow one another without a round trip. `src/kernels/state.rs` holds the same numbers (a test compares them).
//
// Forward kernels bind it `storage, read` and need the first three words only:
//     if (state[STATE_DONE] != 0u) { return; }

const STATE_DONE: u32 = 0u;          // 0: running; else one of the DONE_ values, and every kernel returns early
const STATE_POS: u32 = 1u;           // position of the first token of this pass = tokens in the KV cache before it
const STATE_N_TOKENS: u32 = 2u;      // tokens of this pass, in `ids`; 1 in decode
const STATE_STEP: u32 = 3u;          // tokens sampled so far in this request; the random numbers follow from (seed, step)
const STATE_REMAINING: u32 = 4u;     // tokens that may still be sampled
const STATE_SEED_LO: u32 = 5u;
const STATE_SEED_HI: u32 = 6u;
const STATE_MODE: u32 = 7u;          // one of the MODE_ values
const STATE_FLAGS: u32 = 8u;         // FLAG_ bits
const STATE_TOP_K: u32 = 9u;         // 0: off, else at most 64
const STATE_TOP_P: u32 = 10u;        // f32; 1: off
const STATE_LOG_MIN_P: u32 = 11u;    // f32, ln(min_p); -1e30: off
const STATE_SELECT_SCALE: u32 = 12u; // f32, 1 / temperature as top-p and min-p see it
const STATE_DRAW_SCALE: u32 = 13u;   // f32, 1 / temperature of the draw
const STATE_REPETITION: u32 = 14u;   // f32
const STATE_FREQUENCY: u32 = 15u;    // f32
const STATE_PRESENCE: u32 = 16u;     // f32
const STATE_WINDOW: u32 = 17u;       // the penalties see this many of the last tokens; 0xffffffff: all
const STATE_HISTORY: u32 = 18u;      // tokens before step 0 (the prompt's)
const STATE_N_END: u32 = 19u;        // how many end-of-generation ids follow
const STATE_END: u32 = 32u;          // up to 32 end-of-generation ids
const STATE_OUT: u32 = 64u;          // 32 pairs (token, f32 logprob); step s lies at pair s % 32
const STATE_OUT_LEN: u32 = 32u;

const DONE_END: u32 = 1u;    // the last token is an end-of-generation token
const DONE_CPU: u32 = 2u;    // the CPU must sample this step: `logits` holds it, and nothing has advanced
const DONE_LENGTH: u32 = 3u; // `remaining` reached 0

const MODE_GREEDY: u32 = 0u;
const MODE_GUMBEL: u32 = 1u;
const MODE_RESTRICTED: u32 = 2u;
const MODE_CPU: u32 = 3u;

const FLAG_BIAS: u32 = 1u;         // `bias` is added
const FLAG_PENALTIES: u32 = 2u;    // `counts` holds how often each token was seen
const FLAG_TOP_P_OF_ALL: u32 = 4u; // top-p's mass is a share of the whole vocabulary's, not of the top-k's
