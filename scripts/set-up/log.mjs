/** Output of set-up: one line per step, prefixed with its subject. */

const { stdout, stderr } = process;

/** True while the cursor is at the end of a progress line, which is ended before any other line. */
let inProgressLine = false;

/**
 * @param {string} topic subject of the line, e.g. `media worker`
 * @param {string} text
 */
export function print(topic, text) {
  endProgressLine();
  stdout.write(`${topic}: ${text}\n`);
}

/** @param {string} sentence */
export function printFailure(sentence) {
  endProgressLine();
  stderr.write(`\n${sentence}\n`);
}

/** @param {string[]} lines the end of a failed command's output */
export function printOutput(lines) {
  endProgressLine();
  stderr.write(lines.map((line) => `  | ${line}\n`).join(''));
}

/**
 * Prints progress towards a total: on a terminal in one line that is overwritten, otherwise in a line for each tenth.
 *
 * @param {string} topic
 * @param {string} text
 * @returns {(done: number, total: number) => void}
 */
export function printProgress(topic, text) {
  let tenthsPrinted = 0;
  return (done, total) => {
    if (stdout.isTTY) {
      stdout.write(`\r\u001B[2K${topic}: ${text} ${done}/${total}`);
      inProgressLine = true;
      return;
    }
    const tenths = Math.floor((done / total) * 10);
    if (tenths <= tenthsPrinted) return;
    tenthsPrinted = tenths;
    print(topic, `${text} ${done}/${total}`);
  };
}

function endProgressLine() {
  if (inProgressLine) stdout.write('\n');
  inProgressLine = false;
}
