"""The tool editor: forms for the settings of runners, preview, versions."""
