// Numbers that were packed as text, two characters each.

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const digitValues = new Map(Array.from(DIGITS, (digit, value) => [digit, value]));

/** Numbers from low to high. */
function unpack(text, low, high) {
  const found = new Array(text.length / 2);
  for (let k = 0; k < found.length; k++) {
    found[k] = low + ((high - low) * (64 * digitValues.get(text[2 * k]) + digitValues.get(text[2 * k + 1]))) / 4095;
  }
  return found;
}
