/** Takes the place of modules that the pages leave out. */
export default undefined;
